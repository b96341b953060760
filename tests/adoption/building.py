"""Build the sdist and the wheel as `python -m build` does, in a copy of the checkout and without a download.

The copy has the tests, the example project and the benchmarks too: that these stay out is what is to be shown. The
wheel is built from the unpacked sdist, since what an sdist lacks nobody can install from it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("benchmarks", "docs", "jobqueue", "project", "tests")
FILES: Final = (
    *("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "SECURITY.md"),
    *("pyproject.toml", "setup.cfg", "setup.py"),
)
LEFT_OVER: Final = shutil.ignore_patterns("__pycache__", "*.py[cod]", "images", ".bench")

# Django, psycopg, what these two require, and the binary driver, without which a machine needs libpq.
REQUIRED: Final = ("django", "psycopg", "psycopg-binary", "asgiref", "sqlparse", "typing_extensions")

# What a frontend does, with the setuptools that requirements.txt pins instead of a fresh one.
BUILD: Final = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


@dataclass(frozen=True, slots=True)
class Built:
    """The two files that would be published."""

    sdist: Path
    wheel: Path

    def wheel_names(self) -> set[str]:
        """Return the paths of the files in the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def sdist_names(self) -> set[str]:
        """Return the paths of the files in the sdist, below its one folder."""
        with tarfile.open(self.sdist) as archive:
            return {member.name.partition("/")[2] for member in archive if member.isfile()}

    def metadata(self) -> Message:
        """Return the wheel's METADATA."""
        return Parser().parsestr(self.text("METADATA"))

    def text(self, name: str) -> str:
        """Return a file of the wheel's dist-info folder."""
        folder = self.wheel.name.removesuffix("-py3-none-any.whl")
        with zipfile.ZipFile(self.wheel) as archive:
            return archive.read(f"{folder}.dist-info/{name}").decode()


def build(folder: Path) -> Built:
    """Build both below a folder that is empty or absent; takes about three seconds."""
    sources, unpacked, dist = folder / "sources", folder / "unpacked", folder / "dist"
    sources.mkdir(parents=True)
    dist.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, sources / name, ignore=LEFT_OVER)
    for name in FILES:
        shutil.copy2(ROOT / name, sources / name)
    sdist = dist / run_hook("build_sdist", sources, dist)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    [top] = unpacked.iterdir()
    return Built(sdist, dist / run_hook("build_wheel", top, dist))


def install(built: Built, folder: Path) -> None:
    """Lay the wheel out as pip does, without what it requires."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", folder, built.wheel], check=True, capture_output=True)


def link_required(folder: Path) -> None:
    """Lay links to what the wheel requires beside it: the folder is then a site-packages with nothing else."""
    for name in REQUIRED:
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(distribution(name).locate_file(top))))


def run_hook(hook: str, sources: Path, dist: Path) -> str:
    """Run a hook of the build backend; returns the name of the file that it made."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, hook, str(dist)], cwd=sources, capture_output=True, text=True, check=False
    )
    if done.returncode:
        msg = f"{hook}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        raise RuntimeError(msg)
    return done.stdout.split()[-1]
