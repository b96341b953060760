"""A dispatch on a thread that answers when the test says so."""

from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from django.db import DatabaseError

from jobqueue.conf import get_settings
from jobqueue.worker.dispatch import Claimed, Dispatch
from jobqueue.worker.own import OwnSlot
from jobqueue.worker.queues import QueuePlan

SECOND = timedelta(seconds=1)


class Thread:
    """Takes one task at a time, and does none."""

    def __init__(self) -> None:
        self.busy = False
        self.session = SimpleNamespace(run=None, connects=0)
        self.task: Any = None
        self.then: Any = None

    def submit(self, task: Any, then: Any) -> None:
        self.busy, self.task, self.then = True, task, then


class Parts:
    """A dispatch whose own queue and whose other queues are never empty, with room for both."""

    def __init__(self, queues: str = "default") -> None:
        hands: Any = SimpleNamespace(
            free=lambda _: (4, 4),
            depth=1,
            waiting=0,
            starving=True,
            shared_slots=None,
            add=lambda *_: None,
            hand_out=lambda _: None,
        )
        options: Any = SimpleNamespace(worker_id="w", poll=SECOND, lease=SECOND * 60)
        pool: Any = SimpleNamespace(own=SimpleNamespace(serving=[1]))
        thread: Any = Thread()
        held: Any = SimpleNamespace(all=list, add=lambda _: None)
        settler: Any = []
        self.settler, self.hands, self.held = settler, hands, held
        self.plan = QueuePlan.parse(queues)
        self.thread = thread
        self.own = OwnSlot(pool, hands, options)
        self.dispatch = Dispatch(
            thread,
            plan=self.plan,
            hands=hands,
            own=self.own,
            held=held,
            settler=settler,
            settings=get_settings(),
            worker_id="w",
            lease=SECOND * 60,
            poll=SECOND,
            mark_idle=lambda _: None,
        )
        policies: Any = SimpleNamespace(get=lambda _: None)
        self.dispatch.policies = policies

    def busy_with(self, *queues: str) -> None:
        """Have it hold a job of each of these queues."""
        jobs = [SimpleNamespace(ended=False, own=False, job=SimpleNamespace(queue=queue)) for queue in queues]
        self.held.all = lambda: jobs

    def claim(self, now: float, *, jobs: int = 4, common_fails: bool = False) -> str:
        """Let the next claim be made, and answer it: with so many jobs, or an error. Returns whose it is."""
        self.dispatch.pump(now)
        return self.answer(now, jobs=jobs, common_fails=common_fails)

    def answer(self, now: float, *, jobs: int = 4, common_fails: bool = False, own_is_empty: bool | None = None) -> str:
        """Answer the claim that was made."""
        assert self.thread.busy, "a claim is made"
        then = self.thread.then
        self.thread.busy = False
        own = isinstance(then, partial)
        if common_fails and not own:
            then(None, DatabaseError("no such column"))
        else:
            held: Any = [
                SimpleNamespace(job=SimpleNamespace(job_type="probe.ok", queue="default")) for _ in range(jobs)
            ]
            then(Claimed(held, set() if jobs else {"default"}, True, now, own_is_empty), None)
        return "own" if own else "common"
