"""Run the services of one worker, promote first, each no more than a tenth of the time.

While a long transaction elsewhere keeps dead rows in the partial indexes, every one of these statements becomes
slower; the share keeps that from becoming the database's main work.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import DatabaseError

from jobqueue.conf import get_settings
from jobqueue.logs import Quietly
from jobqueue.managers.sessions import Session

from .alerts import Alerts
from .budgets import Budgets
from .figures import PruneFigures
from .fold import Fold
from .promote import Promote
from .prune import Prune
from .queues import ResumeQueues
from .reap import Reap
from .shape import Service
from .workers import RemoveWorkers

logger = logging.getLogger("jobqueue.maintenance")

SHARE = 9  # after a run that took t, the service rests for at least 9 t
SOONEST_SECONDS = 0.002
LEAST_REST_SECONDS = 0.005  # whatever asks for another look meanwhile
TOGETHER_SECONDS = 0.25  # what is due so soon is done with what is due now: each time that a worker wakes costs
QUICK_SECONDS = 0.01
BY_RULES_OF_PEOPLE = frozenset({"alerts", "budgets"})
LAME_SECONDS = 10.0


class Maintenance(threading.Thread):
    """One thread, one connection, all services."""

    def __init__(
        self,
        alias: str,
        worker_id: str,
        *,
        lease: timedelta,
        woke: Callable[[str | None], None],
        home_queue: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        super().__init__(name="jobqueue-maintenance", daemon=True)
        self._ended, self._wake = threading.Event(), threading.Event()
        self.session = Session(alias, f"jobqueue maintenance {worker_id}", wake=self._ended)
        run, tick = self.session.run, get_settings().MAINTENANCE_SECONDS
        self.promote = Promote(run, interval_seconds=tick)
        self.services: list[Service] = [
            self.promote,
            Reap(self.session, worker_id=worker_id, lease=lease, interval_seconds=tick),
            ResumeQueues(run, interval_seconds=tick),
            Budgets(self.session, home_queue=home_queue, interval_seconds=tick),
            Prune(run),
            Fold(run),
            PruneFigures(run),
            RemoveWorkers(run, lease=lease),
            Alerts(self.session),
        ]
        self._due = dict.fromkeys((service.name for service in self.services), 0.0)
        self._rested = dict(self._due)  # until when those that took long do nothing, whatever is due
        self._asked = False
        self._woke = woke
        self._away = Quietly(logger)
        self._quietly = {service.name: Quietly(logger) for service in self.services}

    def look_now(self) -> None:
        """See at once when the next scheduled job is due: one may have been enqueued."""
        self._asked = True
        self._wake.set()

    def end(self) -> None:
        """Have the thread end after the statement it is in."""
        self._ended.set()
        self._wake.set()

    def run(self) -> None:
        """Serve until end()."""
        while not self._ended.is_set():
            self._wake.clear()
            if self._asked:  # here: a run under way would write over it
                self._asked, self._due[self.promote.name] = False, 0.0
            for service in self.services:
                if not self._ended.is_set() and self._is_due(service):
                    self._run_service(service)
            next_at = min(max(due, self._rested[name]) for name, due in self._due.items())
            self._wake.wait(max(SOONEST_SECONDS, next_at - time.monotonic()))
        self.session.close()

    def _is_due(self, service: Service) -> bool:
        now = time.monotonic()
        soon = now + min(TOGETHER_SECONDS, service.interval_seconds / 4)
        # Those take a turn of all workers, which comes no sooner.
        by_turns = service.name in BY_RULES_OF_PEOPLE
        return self._due[service.name] <= (now if by_turns else soon) and self._rested[service.name] <= now

    def _run_service(self, service: Service) -> None:
        began, jitter = time.monotonic(), random.uniform(0.9, 1.1)
        try:
            counts = service.run_once()
        except DatabaseError as error:
            # So that it does not fail all the time; but not for as long as an outage lasted.
            took = 0.0 if self.session.away else min(time.monotonic() - began, LAME_SECONDS / SHARE)
            text = str(error).strip().split("\n")[0]
            quietly = self._away if self.session.away else self._quietly[service.name]
            quietly.warning("maintenance failed service=%s error=%s", service.name, text)
            if self.session.away:
                self.session.pause()
            self._rest(service, service.interval_seconds * jitter, took=took)
            return
        except Exception as error:
            # What somebody wrote into an alert rule or a budget must not keep every worker from promoting and reaping.
            if service.name not in BY_RULES_OF_PEOPLE:
                raise
            self._quietly[service.name].warning("maintenance failed service=%s error=%r", service.name, error)
            logger.debug("maintenance failed service=%s", service.name, exc_info=True)
            self._rest(service, max(service.interval_seconds * jitter, LAME_SECONDS), took=0.0)
            return
        took = time.monotonic() - began
        if any(counts.values()):
            logger.debug("maintenance service=%s %s seconds=%.3f", service.name, counts, took)
        pause = service.interval_seconds * jitter  # after the run: it may depend on what was found
        if service is self.promote:
            pause = self._after_promote(pause)
        if service.more:
            pause = SOONEST_SECONDS
        self._rest(service, pause, took=took)

    def _rest(self, service: Service, pause: float, *, took: float) -> None:
        now, rest = time.monotonic(), took * SHARE if took > QUICK_SECONDS else min(pause, LEAST_REST_SECONDS)
        self._due[service.name], self._rested[service.name] = now + max(pause, rest), now + rest

    def _after_promote(self, pause: float) -> float:
        """Wake the worker for what became due; return how long until the next is."""
        for queue in self.promote.queues:
            self._woke(queue)
        next_in = self.promote.next_in
        return pause if next_in is None else max(SOONEST_SECONDS, min(pause, next_in))
