"""The zygote: imports the project and the handlers once, then forks a child whenever the supervisor asks.

One thread, no database connection. It is the parent of all children and, as a subreaper, of every orphan that a
handler leaves; only it signals and reaps them, so a process id is never mistaken for another's. When the supervisor's
end of its socket closes, for whatever reason, it kills everything below it and exits. When the supervisor stands still
for so long that its leases run out, it kills the children: nobody else could stop their jobs before others begin them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from .processes import adopt_orphans, children_of, descendants_of, end_descendants, kill, kill_group

FD_VARIABLE = "JOBQUEUE_ZYGOTE"
COMMAND_BYTES = 4096
POLL_MILLISECONDS = 500
STALL_SECONDS = 1.5


class Zygote:
    """Serves the supervisor's commands: fork, signal, kill."""

    def __init__(self, control: socket.socket, worker_id: str, *, patience: float) -> None:
        self._control, self._worker_id = control, worker_id
        self._patience, self._heard_at = patience, _boottime()
        self._pids: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        self._killed: set[str] = set()  # of children: by its own decision
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Answer until the supervisor is gone; then kill everything below."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        try:
            while True:
                before = _boottime()
                ready = poll.poll(POLL_MILLISECONDS)
                if _boottime() - before > STALL_SECONDS:  # stopped itself: its supervisor first, which knows the leases
                    self._heard_at = max(self._heard_at, _boottime() - self._patience + STALL_SECONDS)
                for fd, _ in ready:
                    if fd == self._wake_read:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._wake_read, 4096)
                        self._reap()
                    elif not self._obey():
                        return
                if self._keys and _boottime() - self._heard_at > self._patience:
                    self._kill_children()
        finally:
            self._kill_everything()

    def _obey(self) -> bool:
        """Carry out one command. Returns False when the supervisor is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._control, COMMAND_BYTES, 4)
        except ConnectionResetError:
            return False
        if not data:
            return False
        command: dict[str, Any] = json.loads(data)
        self._heard_at = _boottime()
        if command["op"] == "alive":
            return True
        key = command["key"]
        if command["op"] == "fork":
            self._fork(key, command["slots"], fds)
        elif (pid := self._pids.get(key)) is not None:
            if command["op"] == "kill":
                doomed = descendants_of(pid)  # listed before: orphans change their parent
                kill_group(pid)
                kill(doomed)
                self._tell({"event": "killed", "key": key})  # it may die a while later: the kernel has much to free
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, command["signal"])
        return True

    def _fork(self, key: str, slots: int, fds: list[int]) -> None:
        *ends, memory = fds
        sockets = tuple(socket.socket(fileno=fd) for fd in ends)
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # no process or memory left: a slot less for a while, and nothing else
            pid = -1
            self._tell({"event": "exited", "key": key, "code": 0, "ours": True, "unborn": str(error)})
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            from .child import main  # noqa: PLC0415  (imported before, by main(); the name is only needed here)

            main(
                key=key,
                worker_id=self._worker_id,
                slots=slots,
                zygote=zygote,
                sockets=sockets,  # type: ignore[arg-type]
                memory=memory,
            )
        for sock in sockets:
            sock.close()
        os.close(memory)
        if pid > 0:
            self._pids[key], self._keys[pid] = pid, key
            self._tell({"event": "forked", "key": key, "pid": pid})

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                key = self._keys.pop(pid, None)
                self._end_orphans()
                if key is not None:  # else an orphan
                    kill_group(pid)
                    del self._pids[key]
                    ours = key in self._killed
                    self._killed.discard(key)
                    self._tell({"event": "exited", "key": key, "code": os.waitstatus_to_exitcode(status), "ours": ours})

    def _end_orphans(self) -> None:
        """Kill what a dead child's handlers left: a living child adopts its own, so whoever else is here is that."""
        for pid in children_of(os.getpid()):
            if pid not in self._keys:
                kill([*descendants_of(pid), pid])

    def _kill_children(self) -> None:
        """Kill all children: the supervisor has stood still for so long that their leases are running out."""
        self._heard_at = _boottime()
        self._killed.update(self._pids)
        for pid in list(self._keys):
            doomed = descendants_of(pid)
            kill_group(pid)
            kill(doomed)

    def _kill_everything(self) -> None:
        for pid in list(self._keys):
            kill_group(pid)
        end_descendants()

    def _tell(self, event: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(event).encode())


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def name_connections(worker_id: str) -> None:
    """Give the connections that handlers open an application_name that tells their worker, and no pool."""
    from django.db import connections  # noqa: PLC0415

    for alias in connections:
        values = connections.settings[alias]
        if values["ENGINE"].rpartition(".")[2] in ("postgresql", "postgis"):
            options = values.setdefault("OPTIONS", {})
            options.setdefault("application_name", f"jobqueue child {worker_id}"[:63])
            # A slot keeps its own connection from job to job; a pool of its own would hold four by default.
            options.pop("pool", None)


def main() -> None:
    """Be the zygote: set Django up, import the handlers, tell their policies, serve."""
    os.setpgid(0, 0)
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)  # it ends when its supervisor does, by the closed socket
    config = json.loads(os.environ.pop(FD_VARIABLE))
    control = socket.socket(fileno=config["fd"])

    import django  # noqa: PLC0415

    django.setup()
    from django.db import connections  # noqa: PLC0415

    from jobqueue import signals  # noqa: PLC0415
    from jobqueue.logs import speak_by_default  # noqa: PLC0415
    from jobqueue.registry import registry  # noqa: PLC0415

    from . import child  # noqa: F401, PLC0415  (so that forks share it)

    speak_by_default()
    name_connections(config["worker_id"])
    table = registry.policies() | {
        "receivers": [
            name
            for name in ("job_started", "job_retrying", "job_dead", "job_cancelled", "worker_heartbeat")
            if getattr(signals, name).receivers
            # A task of django.tasks whose child was killed has its signal sent by another one.
            or (name in ("job_dead", "job_cancelled") and registry.task_source is not None)
        ]
    }
    connections.close_all()
    gc.collect()
    gc.freeze()  # what is there now is shared: a collection must not touch, and so copy, its pages
    memory = os.memfd_create("jobqueue-policies", os.MFD_CLOEXEC)
    with open(memory, "wb", closefd=False) as file:
        file.write(json.dumps(table).encode())
    try:
        socket.send_fds(control, [b'{"event": "ready"}'], [memory])
    except OSError:
        sys.exit(0)  # the supervisor has ended meanwhile: there is nothing to serve, and nothing to tell
    os.close(memory)
    Zygote(control, config["worker_id"], patience=config["patience"]).serve()
    sys.exit(0)


if __name__ == "__main__":
    main()
