"""Source distributions and environments, kept below .conformance."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".conformance"
_PIP = ("-m", "pip", "--disable-pip-version-check", "-qq")


def source_of(python: Path, project: str, version: str) -> Path:
    """Return the unpacked source distribution of a version; what is there already is not fetched again."""
    unpacked = CACHE / "sources" / f"{project}-{version}"
    if not unpacked.exists():
        fetched = CACHE / "fetched" / f"{project}-{version}"
        shutil.rmtree(fetched, ignore_errors=True)
        # Its metadata are made on the way, so the Python has to be one that the version runs on.
        command: list[str | Path] = [
            python,
            *_PIP,
            "download",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            fetched,
            f"{project}=={version}",
        ]
        subprocess.run(command, check=True)
        (archive,) = fetched.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(fetched, filter="data")
        (folder,) = (path for path in fetched.iterdir() if path.is_dir())
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(unpacked)
        shutil.rmtree(fetched)
    return unpacked


def environment_with(python: Path, name: str, *requirements: str) -> Path:
    """Return the Python of an environment with what requirements.txt names, but with another Django."""
    folder = CACHE / name
    done = folder / ".installed"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        lines = (ROOT / "requirements.txt").read_text().split("# Lint")[0].splitlines()
        kept = [line for line in lines if not line.lower().startswith(("django==", "django-tasks"))]
        wanted = folder / "requirements.txt"
        wanted.write_text("\n".join(kept))
        own = folder / "bin" / "python"
        subprocess.run([own, *_PIP, "install", "-r", wanted, *requirements], check=True)
        done.touch()
    return folder / "bin" / "python"


def version_of(python: Path, module: str = "django") -> str:
    """Return the version of an installed module."""
    code = f"import {module}; print({module}.__version__)"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def this_python() -> Path:
    """Return the Python that runs this."""
    return Path(sys.executable)
