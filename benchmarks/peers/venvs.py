"""A virtual environment a peer, .bench/venvs/MODULE: made on demand from pinned versions, and anew when they change."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.plan import say
from benchmarks.worker import ROOT

from .catalogue import Entry
from .errors import PeerFailed

VENVS = ROOT / ".bench" / "venvs"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
INSTALL_SECONDS = 600
ERROR_LINES = 3


def interpreter(entry: Entry) -> Path:
    """Return the peer's interpreter, installing what is missing. Raises PeerFailed with what pip said."""
    pins = REQUIREMENTS / f"{entry.module}.txt"
    if not pins.is_file():
        return Path(sys.executable)
    base = _base_python(entry)
    folder = VENVS / entry.module
    stamp = folder / ".installed"
    wanted = hashlib.sha256(f"{base}\n{pins.read_text()}".encode()).hexdigest()
    with _alone(folder):
        if not stamp.is_file() or stamp.read_text() != wanted:
            _install(entry, base, folder, pins)
            stamp.write_text(wanted)
    return folder / "bin" / "python"


def _install(entry: Entry, base: str, folder: Path, pins: Path) -> None:
    say(f"{entry.name}: installing into {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    _run(entry, base, "-m", "venv", str(folder))
    pip = ("-m", "pip", "--disable-pip-version-check", "-qq", "install", "-r", str(pins))
    _run(entry, str(folder / "bin" / "python"), *pip)
    say(f"{entry.name}: installed in {time.monotonic() - began:.0f} s")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other run make, or remake, the same environment meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _base_python(entry: Entry) -> str:
    """Return this interpreter where it is new enough, since peers should run on the same one, else a newer one."""
    if sys.version_info[:2] >= entry.python:
        return sys.executable
    newer = [f"3.{minor}" for minor in range(entry.python[1], entry.python[1] + 3)]
    for python in newer:
        found = _known(python)
        if found:
            return found
    raise PeerFailed(f"needs Python {'.'.join(map(str, entry.python))} or newer, and none was found")


@functools.cache
def _known(python: str) -> str | None:
    """Return the path of a Python of that version from PATH or pyenv, if it answers (a shim of pyenv may not)."""
    prefix = _answer("pyenv", "prefix", python)
    for candidate in (f"python{python}", f"{prefix}/bin/python{python}" if prefix else ""):
        path = candidate and _answer(candidate, "-c", "import sys; print(sys.executable)")
        if path:
            return path
    return None


def _answer(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(entry: Entry, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"not installed: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(("WARNING", "[notice]"))]
        raise PeerFailed(f"not installed: {' '.join(lines[-ERROR_LINES:])}")
