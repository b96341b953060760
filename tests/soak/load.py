"""A steady, mixed load: jobs that end in every way there is, and a note of each that was acknowledged."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connection

from jobqueue.exceptions import InvalidTransition
from jobqueue.models import Job
from jobqueue.states import Status

TICK_SECONDS = 0.1
JOBS_A_TICK = 4
BACKLOG = 1_000  # above it nothing is added: a noisy machine gets fewer jobs, not an endless queue
PATIENT = 20  # attempts of a job that ends well by itself: no soak kills it so often
KEYS = 30


class Load(threading.Thread):
    """Enqueues until told to stop; `acknowledged` are the ids whose commit was confirmed."""

    def __init__(self, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.random = random.Random(seed)
        self.acknowledged: dict[int, str] = {}
        self.effects_once: list[tuple[int, str]] = []  # (job id, name) of those with an effect in their own transaction
        self.refused: Counter[str] = Counter()
        self.error: BaseException | None = None  # what ended it before its time
        self._stop_asked = threading.Event()
        self._number = 0
        kinds: dict[Callable[[], None], int] = {
            self._ok: 30,
            self._mark: 25,
            self._sleep: 10,
            self._complete: 8,
            self._boom: 4,
            self._retry: 3,
            self._flaky: 4,
            self._segv: 1,
            self._alloc: 1,
            self._keyed: 8,
            self._scheduled: 8,
            self._snooze: 3,
            self._bulk: 1,
            self._cancel: 3,
        }
        self._kinds, self._weights = list(kinds), list(kinds.values())

    def stop(self) -> None:
        """End, and wait for it."""
        self._stop_asked.set()
        self.join(60)

    def run(self) -> None:
        """Enqueue a few jobs a tick, whatever the database says."""
        try:
            while not self._stop_asked.wait(TICK_SECONDS):
                self._tick()
        except BaseException as error:
            self.error = error
        finally:
            connection.close()

    def _tick(self) -> None:
        try:
            if Job.objects.counts(BACKLOG).get(Status.PENDING, 0) < BACKLOG:
                for act in self.random.choices(self._kinds, self._weights, k=JOBS_A_TICK):
                    act()
        except DatabaseError as error:
            self.refused[type(error).__name__] += 1
            connection.close()

    def _add(
        self, kind: str, /, *, patient: bool = True, options: dict[str, Any] | None = None, **payload: object
    ) -> Job | None:
        wanted: dict[str, Any] = ({"max_attempts": PATIENT} if patient else {}) | (options or {})
        job = Job.objects.enqueue(f"probe.{kind}", payload, **wanted)
        if job is not None:
            self.acknowledged[job.pk] = kind
        return job

    def _seconds(self) -> float:
        return round(self.random.choice([0.01, 0.05, 0.2, 1]) * self.random.random(), 3)

    def _ok(self) -> None:
        self._add("ok")

    def _mark(self) -> None:
        self._add("mark", seconds=self._seconds())

    def _sleep(self) -> None:
        self._add("sleep", seconds=self._seconds())

    def _complete(self) -> None:
        self._number += 1
        name = f"soak{self._number}"
        if job := self._add("complete", name=name):
            self.effects_once.append((job.pk, name))

    def _boom(self) -> None:
        self._add("boom", patient=False)

    def _retry(self) -> None:
        self._add("retry", patient=False, delay=0.2)

    def _flaky(self) -> None:
        self._add("flaky", failures=2)

    def _segv(self) -> None:
        self._add("segv", patient=False)

    def _alloc(self) -> None:
        self._add("alloc", mb=self.random.choice([20, 200]))

    def _keyed(self) -> None:
        self._add("mark", seconds=self._seconds(), options={"dedupe_key": f"key{self.random.randrange(KEYS)}"})

    def _scheduled(self) -> None:
        self._add("mark", options={"run_after": timedelta(seconds=3 * self.random.random())})

    def _snooze(self) -> None:
        self._add("snooze_once")

    def _bulk(self) -> None:
        made = Job.objects.enqueue_many([{"job_type": "probe.ok", "max_attempts": PATIENT}] * 50)
        self.acknowledged.update((job.pk, "ok") for job in made if job)

    def _cancel(self) -> None:
        job = self._add("mark", seconds=2)
        try:
            if job:
                Job.objects.cancel(job.pk)
        except InvalidTransition:
            self.refused["too late to cancel"] += 1
