"""Births and deaths of children, and of the zygote that makes them, in the supervisor's main loop."""

from __future__ import annotations

import logging
import select
import selectors
import signal
import time
from typing import TYPE_CHECKING

from jobqueue.children.launcher import ZygoteFailed
from jobqueue.logs import Quietly

from .pool import Child

if TYPE_CHECKING:
    from .supervisor import Supervisor

logger = logging.getLogger("jobqueue.worker")

ZYGOTE_TRIES = 3  # one after another, where the first two are killed: a machine short of memory may do that
STILLBORN_SECONDS, STILLBORN_PAUSE_SECONDS = 1.0, 0.5


class Births:
    """Keeps the pool full, hears the zygote, and accounts for what has died."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._worker = supervisor
        self._not_before = 0.0
        self._quietly = Quietly(logger)

    def next_at(self, now: float) -> float | None:
        """Return when fill() should be called again, where it had to wait."""
        return self._not_before if self._not_before > now else None

    def fill(self, now: float) -> None:
        """Fork what is missing; no child is born into a worker that cuts its jobs off."""
        worker = self._worker
        if now < self._not_before or worker.shutdown.interrupting or worker.launcher.control is None:
            return
        own = worker.pool.own.fill() if worker.own.wants_child else []
        for child in [*worker.pool.common.fill(), *own]:
            worker.selector.register(child.channels.results, selectors.EVENT_READ, child)

    def hear_zygote(self, now: float) -> None:
        """Take what the zygote tells: children forked, children dead; or find that it is gone."""
        worker = self._worker
        events = worker.launcher.events()
        if events is None:
            self._zygote_died(now)
            return
        for event in events:
            child = worker.pool.children.get(event.get("key", ""))
            if child is None:
                continue
            if event["event"] == "forked":
                child.pid, child.ready_at = event["pid"], now
                for held in child.mark_started():
                    worker.stops.began(held, now)
            elif event["event"] == "killed":
                child.obeyed = True
            else:
                if "unborn" in event:
                    self._quietly.warning("a child could not be forked, its slot waits: %s", event["unborn"])
                self._bury(child, event["code"], now, ours=event["ours"])

    def let_children_end(self, within: float) -> None:
        """Have the children end by themselves, those that do so in time: what they still export would be lost."""
        worker = self._worker
        children = worker.pool.children
        for child in children.values():
            child.close_inbox()
        give_up = time.monotonic() + within
        while any(child.pid is not None for child in children.values()) and worker.launcher.control is not None:
            left = give_up - time.monotonic()
            if left <= 0 or not select.select([worker.launcher.control], [], [], left)[0]:
                return
            for event in worker.launcher.events() or [{"event": "exited", "key": key} for key in children]:
                if event["event"] == "exited":
                    children.pop(event.get("key", ""), None)

    def listen_to_zygote(self) -> None:
        """Have the main loop woken by the zygote's words."""
        self._worker.selector.register(self._worker.launcher.control, selectors.EVENT_READ, self._worker.launcher)  # type: ignore[arg-type]

    def _bury(self, child: Child, code: int, now: float, *, ours: bool = False) -> None:
        worker = self._worker
        worker.reports.read(child, now)  # a result that came whole counts, however its sender ended
        worker.selector.unregister(child.channels.results)
        stillborn = child.pid is None or (child.served == 0 and now - child.ready_at < STILLBORN_SECONDS)
        if stillborn and not child.retiring:
            self._not_before = now + STILLBORN_PAUSE_SECONDS  # one that dies at birth must not be forked in a loop
        worker.reports.died(child, code, ours=ours)

    def _zygote_died(self, now: float) -> None:
        """Account for all children, which died with it, and start another, unless a stop is asked for meanwhile."""
        worker = self._worker
        logger.error("the zygote ended and took the children with it: starting another")
        worker.selector.unregister(worker.launcher.control)  # type: ignore[arg-type]
        for child in list(worker.pool.children.values()):
            self._bury(child, -signal.SIGKILL, now, ours=True)
        worker.launcher.stop()
        if worker.shutdown.interrupting:
            return
        worker.settler.pump(nothing_runs=True)  # what has ended is not to wait for the imports of another
        if self._start_zygote():
            worker.read_policies()
            self.listen_to_zygote()

    def _start_zygote(self) -> bool:
        """Start another zygote, and again where it is killed before it is ready. Returns False where the worker stops.

        One that ends by itself cannot import the handlers any more: that is not mended by trying again.
        """
        worker = self._worker
        for tries_left in reversed(range(ZYGOTE_TRIES)):
            try:
                return worker.launcher.start(stopped=lambda: worker.shutdown.asked)
            except ZygoteFailed as error:
                if error.killed and tries_left:
                    logger.error("another zygote was killed before it was ready, starting one more: %s", error)
                    time.sleep(STILLBORN_PAUSE_SECONDS)  # what the machine is short of does not come back at once
                    continue
                logger.error("no zygote, the worker stops: %s", error)
        worker.shutdown.fail()
        return False
