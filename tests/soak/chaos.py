"""Random faults: processes killed and frozen, backends ended, the server restarted."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import psycopg

from tests.faults.servers import PrivateServer
from tests.worker import processes
from tests.worker.waiting import until

from .fleet import Fleet, Post

PAUSE_SECONDS = (1.0, 5.0)
ROLES = ("dispatch", "heartbeat", "maintenance", "listener", "child")


class Chaos:
    """Does one fault after another; the first post is spared from its supervisor's end, so that one lives long."""

    def __init__(self, fleet: Fleet, server: PrivateServer, seed: int) -> None:
        self.fleet, self.server, self.random = fleet, server, random.Random(seed)
        self.done: Counter[str] = Counter()
        self._thaws: list[tuple[float, int]] = []
        self._next = time.monotonic() + PAUSE_SECONDS[1]
        kinds: dict[Callable[[], str], int] = {
            self._kill_child: 25,
            self._kill_zygote: 6,
            self._kill_supervisor: 3,
            self._kill_tree: 2,
            self._stop_softly: 3,
            self._end_backends: 25,
            self._freeze_child: 10,
            self._freeze_supervisor: 6,
            self._freeze_tree: 5,
            self._restart_fast: 3,
            self._restart_immediate: 2,
        }
        self._kinds, self._weights = list(kinds), list(kinds.values())

    def step(self) -> None:
        """Thaw what has been frozen long enough, and do the next fault when it is time."""
        now = time.monotonic()
        for due, pid in [thaw for thaw in self._thaws if thaw[0] <= now]:
            self._thaws.remove((due, pid))
            send(pid, signal.SIGCONT)
        if now >= self._next:
            (act,) = self.random.choices(self._kinds, self._weights)
            with contextlib.suppress(LookupError):  # nobody there to do it to
                self.done[act()] += 1
            self._next = time.monotonic() + self.random.uniform(*PAUSE_SECONDS)

    def end(self) -> None:
        """Thaw everything."""
        for _, pid in self._thaws:
            send(pid, signal.SIGCONT)
        self._thaws.clear()

    def _post(self, *, spare: bool = False) -> Post:
        return self.random.choice([post for post in self.fleet.posts[spare:] if post.serves])

    def _zygote(self, post: Post) -> int:
        return processes.children(post.worker.pid)[0]

    def _child(self) -> int:
        return self.random.choice(processes.children(self._zygote(self._post())))

    def _kill_child(self) -> str:
        send(self._child(), signal.SIGKILL)
        return "child killed"

    def _kill_zygote(self) -> str:
        send(self._zygote(self._post()), signal.SIGKILL)
        return "zygote killed"

    def _kill_supervisor(self) -> str:
        post = self._post(spare=True)
        post.worker.expected_to_end = True
        post.worker.send(signal.SIGKILL)
        return "supervisor killed"

    def _kill_tree(self) -> str:
        self._post(spare=True).worker.kill_all()
        return "whole tree killed"

    def _stop_softly(self) -> str:
        post = self._post(spare=True)
        post.worker.expected_to_end = True
        post.worker.stop()
        return "worker stopped softly"

    def _freeze(self, pids: list[int], longest: float) -> None:
        until_when = time.monotonic() + self.random.uniform(0.5, longest)
        for pid in pids:
            send(pid, signal.SIGSTOP)
            self._thaws.append((until_when, pid))

    def _freeze_child(self) -> str:
        self._freeze([self._child()], 4)
        return "child frozen"

    def _freeze_supervisor(self) -> str:
        self._freeze([self._post().worker.pid], 9)
        return "supervisor frozen"

    def _freeze_tree(self) -> str:
        self._freeze(self._post().worker.tree(), 9)
        return "whole tree frozen"

    def _end_backends(self) -> str:
        role = self.random.choice(ROLES)
        with contextlib.suppress(psycopg.OperationalError):
            self.server.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                " WHERE application_name LIKE %s ORDER BY random() LIMIT %s) AS ours",
                [f"jobqueue {role} %", self.random.randint(1, 3)],
            )
        return f"backends ended: {role}"

    def _restart_fast(self) -> str:
        self.server.restart("fast")
        return "server restarted, fast"

    def _restart_immediate(self) -> str:
        self.server.restart("immediate")
        until(lambda: self.server.running, what="the server's recovery")
        return "server restarted, immediate"


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
