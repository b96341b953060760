"""A Redis server of the run's own, for the peers whose store it is: from an installed redis-server, gone at the end.

Nothing is written to disk (no snapshots, no append-only file), as the figures that such peers publish assume.
What they show is therefore work without durability, unlike every figure of a peer on PostgreSQL.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import PeerFailed

PROGRAM = "redis-server"
HOST = "127.0.0.1"
START_SECONDS = 10.0
START_TRIES = 3
MISSING = f"{PROGRAM} is not installed: `apt-get install {PROGRAM}`, or put one on the PATH"


@contextmanager
def server() -> Iterator[str]:
    """Run a server on a free port and yield its URL. Raises PeerFailed, with how to install it where it is missing."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise PeerFailed(MISSING)
    with tempfile.TemporaryDirectory(prefix="jobqueue-redis-") as folder:
        process, port = _started(program, Path(folder))
        try:
            yield f"redis://{HOST}:{port}/0"
        finally:
            _stop(process)


def _started(program: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    # The port is free when it is asked for and may be taken a moment later, so the whole start is tried again.
    for _ in range(START_TRIES):
        port = _free_port()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(_command(program, port, folder), stdout=log, stderr=log)
        give_up = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < give_up:
            if _answers(port):
                return process, port
            time.sleep(0.02)
        _stop(process)
    raise PeerFailed(f"{PROGRAM} did not start: {(folder / 'log').read_text(errors='replace').strip()[-300:]}")


def _command(program: str, port: int, folder: Path) -> list[str]:
    return [program, "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    """Tell whether a Redis answers there; its line protocol is spoken by hand, since this environment has no client."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
