"""The supervisor's side of the zygote: start it, have it fork, signal and kill, and hear what became of children."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

from jobqueue.exceptions import JobQueueError

from .processes import adopt_orphans, children_of, end_descendants
from .zygote import FD_VARIABLE

logger = logging.getLogger("jobqueue.worker")

BUFFER_BYTES = 1024 * 1024
DEAF_SECONDS = 1.0
READY_SECONDS = 120
LOOK_SECONDS = 0.2  # how often a start looks whether it is still wanted


class ZygoteFailed(JobQueueError):
    """The process that imports the handlers ended: its own error is above, on standard error.

    `killed` says that it was ended or refused from outside (a signal, no process left), which another one need not be.
    """

    def __init__(self, message: str, *, killed: bool) -> None:
        super().__init__(message)
        self.killed = killed


@dataclass(slots=True)
class Channels:
    """The supervisor's ends of one child's sockets, its copy of the child's inbox, and the memory for stacks."""

    inbox: socket.socket
    inbox_far: socket.socket
    results: socket.socket
    control: socket.socket
    memory: FileIO
    far_ends: list[socket.socket] = field(default_factory=list)

    @classmethod
    def open(cls) -> Channels:
        """Make the three pairs and the memory file, which keeps nothing while no stack is asked for."""
        inbox, inbox_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        results, results_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        control, control_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inbox.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        for mine in (inbox, results, control):
            mine.setblocking(False)
        memory = FileIO(os.memfd_create("jobqueue-stack", os.MFD_CLOEXEC), "r+")
        fcntl.fcntl(memory, fcntl.F_SETFL, os.O_APPEND)  # else what is written after it was emptied begins with a hole
        return cls(inbox, inbox_far, results, control, memory, [results_far, control_far])

    def close(self) -> None:
        """Close every end that the supervisor has."""
        for sock in (self.inbox, self.inbox_far, self.results, self.control, *self.far_ends):
            sock.close()
        self.memory.close()


class Launcher:
    """One zygote, started from the supervisor's main thread: the kernel ties a parent's death to its thread's."""

    def __init__(self, worker_id: str, *, patience: float = 3600.0) -> None:
        self._worker_id, self._patience = worker_id, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._others: frozenset[int] = frozenset()  # children of this process that are not the zygote's business
        self.control: socket.socket | None = None
        self.policies: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """The zygote's process id."""
        return self._process.pid if self._process else None

    def start(self, *, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Start the zygote and wait until it has imported the handlers. Raises ZygoteFailed.

        Returns False, with nothing left running, when `stopped` said so meanwhile.
        """
        adopt_orphans()  # what a killed zygote leaves comes here, and stop() ends it
        self._others = frozenset(children_of(os.getpid()))
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        config = json.dumps({"fd": theirs.fileno(), "worker_id": self._worker_id, "patience": self._patience})
        environment = {
            **os.environ,
            FD_VARIABLE: config,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        }
        # The zygote's file descriptor is inherited by number; everything else is closed on exec.
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jobqueue.children.zygote"],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            mine.close()
            msg = f"the process that imports the handlers could not be started: {error}"
            raise ZygoteFailed(msg, killed=True) from None
        finally:
            theirs.close()
        data, fds = _first_word(mine, stopped)
        if not data:
            mine.close()
            self._process.kill()
            code = self._process.wait()
            self._process = None
            end_descendants(self._others)
            if stopped():
                return False
            msg = (
                f"the process that imports the handlers ended with code {code} before it was ready: see its error above"
            )
            raise ZygoteFailed(msg, killed=code < 0)
        with open(fds[0], "rb") as file:
            file.seek(0)
            self.policies = json.loads(file.read())
        mine.setblocking(False)
        self.control = mine
        return True

    def fork(self, key: str, slots: int) -> Channels:
        """Ask for a child; its pid follows as an event."""
        channels = Channels.open()
        far: list[socket.socket | FileIO] = [channels.inbox_far, *channels.far_ends, channels.memory]
        self._command({"op": "fork", "key": key, "slots": slots}, [end.fileno() for end in far])
        for sock in channels.far_ends:
            sock.close()
        channels.far_ends.clear()
        return channels

    def say_alive(self) -> None:
        """Tell the zygote that its supervisor works: after `patience` seconds without a word it kills the children."""
        self._command({"op": "alive"})

    def signal(self, key: str, number: int) -> None:
        """Signal one child."""
        self._command({"op": "signal", "key": key, "signal": int(number)})

    def kill(self, key: str) -> None:
        """Kill one child with its process group and all its descendants."""
        self._command({"op": "kill", "key": key})

    def events(self) -> list[dict[str, Any]] | None:
        """Return what happened since the last call; None when the zygote is gone."""
        found: list[dict[str, Any]] = []
        if self.control is None:
            return None
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data = self.control.recv(4096)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return found or None
                found.append(json.loads(data))
        return found

    def stop(self) -> None:
        """Close the zygote's socket: it kills everything below it and exits."""
        if self.control is not None:
            self.control.close()
            self.control = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            end_descendants(self._others)

    def _command(self, command: dict[str, Any], fds: list[int] | None = None) -> None:
        if self.control is None:
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is noticed by events()
            self.control.settimeout(DEAF_SECONDS)
            try:
                socket.send_fds(self.control, [json.dumps(command).encode()], fds or [])
            except TimeoutError:
                self.kill_zygote()
            finally:
                self.control.setblocking(False)

    def kill_zygote(self) -> None:
        """Kill a zygote that does not obey (stopped, hung): its children die with it, and events() tells its end."""
        if self._process is not None:
            logger.error("the zygote does not obey: killing it with all children")
            self._process.kill()


def _first_word(sock: socket.socket, stopped: Callable[[], bool]) -> tuple[bytes, list[int]]:
    """Return what the zygote says when it is ready, and its descriptors; nothing when it ended or took too long."""
    give_up = time.monotonic() + READY_SECONDS
    sock.settimeout(LOOK_SECONDS)
    while time.monotonic() < give_up and not stopped():
        with contextlib.suppress(TimeoutError):
            try:
                data, fds, _, _ = socket.recv_fds(sock, 4096, 1)
            except ConnectionResetError:
                return b"", []
            return data, fds
    return b"", []
