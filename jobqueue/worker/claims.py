"""Claim, and stay fast while a long transaction elsewhere keeps dead rows at the head of the claim index.

Normally a claim scans each queue from its very start, and the order is exact. Where such a full scan has become slow,
claims start at a floor instead: the last key this worker claimed of that queue and priority. A better priority has no
floor and is always looked at. What waits behind a floor (transactions that committed late, jobs given back) is found
by a sweep: backwards from the floor in slices of run_after that double in width, each one statement under the
time limit (one that hits it is halved and tried again, so a sweep goes on where it was), for at most a tenth of the
time. At the far end one full scan tells whether all is quick again. See docs/decisions.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db import OperationalError

from jobqueue import sql
from jobqueue.managers import ClaimedJob, Span, leasing
from jobqueue.managers.culprits import Culprits
from jobqueue.managers.rows import FIRST_KEY, LAST_PRIORITY, Run
from jobqueue.managers.settling import sqlstate

SLOW_SECONDS, SLOW_SECONDS_A_ROW = 0.004, 0.00003  # three times what a claim takes
CREEP_SECONDS, CREEP_SHARE = 2e-5, 0.01  # a second: how fast the quickest claim is forgotten
SWEEP_SHARE = 10  # a sweep may take one part in ten of the time
SWEEP_CLAIMS, SWEEP_PATIENCE_SECONDS = 25, 5.0  # and a slow one comes after so many quick claims, or so long
FIRST_SLICE = timedelta(seconds=5)
WIDEST_SLICE = timedelta(days=3650)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
QUERY_CANCELED = "57014"


@dataclass(slots=True)
class Floor:
    """What is known of one queue: the last key claimed by priority, and how far the sweep behind them has come."""

    keys: dict[int, tuple[int, int]] = field(default_factory=dict)  # (run_after in microseconds, id) by priority
    next_sweep_at: float = 0.0
    claims_first: int = 0  # how many claims come before the next sweep ...
    patient_until: float = 0.0  # ... at the latest then
    sweep_top: datetime | None = None
    width: timedelta = FIRST_SLICE
    seen: int | None = None  # which of Claims.doubt() the last full scan followed that found all there was

    def spans(self, queue: str, take: int) -> list[Span]:
        """Return the ranges of the index that a claim with floors reads, best priority first."""
        priorities = sorted(self.keys)
        edges = [*priorities[1:], LAST_PRIORITY + 1]
        spans = [Span(queue, take, top=priorities[0] - 1)] if priorities[0] > FIRST_KEY[0] else []
        for priority, edge in zip(priorities, edges, strict=True):
            run_after, job_id = self.keys[priority]
            spans.append(Span(queue, take, priority, _instant(run_after), job_id, edge - 1))
        return spans

    def slice(self, queue: str, take: int) -> list[Span]:
        """Return the next ranges of the sweep, one a priority."""
        if self.sweep_top is None:
            self.sweep_top = _instant(max(run_after for run_after, _ in self.keys.values()))
        start = self.sweep_top - self.width if self.sweep_top > OLDEST else "-infinity"
        return [Span(queue, take, priority, start, 0, priority, self.sweep_top) for priority in sorted(self.keys)]

    def sweep_is_due(self, now: float) -> bool:
        """Tell whether it is time for the next sweep; not being so counts as a claim without one."""
        due = now >= self.next_sweep_at and (self.claims_first <= 0 or now >= self.patient_until)
        self.claims_first -= not due
        return due

    def rest_after(self, seconds: float, now: float) -> None:
        """Note that a sweep took so long."""
        self.next_sweep_at = now + seconds * SWEEP_SHARE
        if seconds > SLOW_SECONDS:
            # By time alone, one claim in five would be a slow one where claims are few.
            self.claims_first, self.patient_until = SWEEP_CLAIMS, now + SWEEP_PATIENCE_SECONDS

    def step_back(self) -> None:
        """Go on to the next slice, twice as wide."""
        if self.sweep_top is not None and self.sweep_top > OLDEST:
            self.sweep_top -= self.width
        self.width *= 2

    def note(self, jobs: Sequence[ClaimedJob]) -> None:
        """Raise the floors to the last keys claimed; the jobs come in claim order."""
        for priority, key in {job.priority: (job.run_after_us, job.id) for job in jobs}.items():
            self.keys[priority] = max(key, self.keys.get(priority, key))


class Claims:
    """The claims of one worker on one connection."""

    def __init__(self, run: Run, *, worker_id: str, lease: timedelta) -> None:
        self._run, self._worker_id, self._lease = run, worker_id, lease
        self._floors: dict[str, Floor] = {}
        self._slow: set[str] = set()
        self._spans: Sequence[Span] = ()
        self._culprits = Culprits(self._claim_around, self._first)
        self._quickest, self._measured_at = 1.0, time.monotonic()
        self._doubts = 0

    def doubt(self) -> None:
        """Take note that a job may have come behind a floor, even if a sweep has just looked there."""
        self._doubts += 1

    def may_be_behind(self, queues: Iterable[str]) -> bool:
        """Tell whether due jobs may wait behind a floor of these queues: no sweep was ended since the last doubt."""
        return any(self._floors[queue].seen != self._doubts for queue in self._slow.intersection(queues))

    @property
    def slow_queues(self) -> set[str]:
        """The queues that are claimed with floors now."""
        return set(self._slow)

    def sweep_at(self, queues: Iterable[str]) -> float | None:
        """Return when the next sweep behind a floor of these queues may be made, None where they have no floor."""
        return min((self._floors[queue].next_sweep_at for queue in self._slow.intersection(queues)), default=None)

    def rest_after(self, seconds: float) -> float:
        """Return how long to do without another look at the index that took so long: a tenth of the time is its share.

        0 for one that was quick; the way to the server does not count.
        """
        return SWEEP_SHARE * (seconds - self._quickest) if seconds > SLOW_SECONDS + 3 * self._quickest else 0.0

    def claim(
        self, takes: Sequence[tuple[str, int]], *, total: int, found: list[ClaimedJob] | None = None
    ) -> list[ClaimedJob]:
        """Claim up to so many jobs of each queue and up to `total`; all queues that are not slow in one statement.

        The jobs are added to `found` as they come, and it is returned: where a later statement fails, those of the ones
        before it are leased all the same.
        """
        jobs = [] if found is None else found
        most = len(jobs) + total
        quick = [(queue, take) for queue, take in takes if queue not in self._slow]
        slow = [(queue, take) for queue, take in takes if queue in self._slow]
        if quick:
            jobs += self._claim_fully(quick, total)
        for queue, take in slow:
            if len(jobs) < most:
                self._claim_slow(queue, min(take, most - len(jobs)), jobs)
        return jobs

    def _claim_fully(self, takes: Sequence[tuple[str, int]], total: int) -> list[ClaimedJob]:
        began = time.monotonic()
        jobs = self._claim([Span(queue, take) for queue, take in takes], total)
        seconds = time.monotonic() - began
        slow = self._is_slow(seconds, len(jobs))
        for queue, _ in takes:
            floor = self._floors.setdefault(queue, Floor())
            floor.note([job for job in jobs if job.queue == queue])
            if slow and floor.keys:
                self._slow.add(queue)
                floor.rest_after(seconds, time.monotonic())
        return jobs

    def _claim_slow(self, queue: str, take: int, jobs: list[ClaimedJob]) -> None:
        floor = self._floors[queue]
        # The sweep comes first: on a busy queue what is above the floor would always take every place.
        swept = self._sweep(queue, floor, take) if floor.sweep_is_due(time.monotonic()) else []
        jobs += swept
        left = take - len(swept)
        if left > 0:
            above = self._claim(floor.spans(queue, left), total=left)
            floor.note(above)
            jobs += above

    def _sweep(self, queue: str, floor: Floor, take: int) -> list[ClaimedJob]:
        """Look behind the floors, one slice further back."""
        began = time.monotonic()
        try:
            if floor.width > WIDEST_SLICE:
                jobs = self._look_from_start(queue, floor, take)
            else:
                jobs = self._claim(floor.slice(queue, take), total=take)
                if len(jobs) < take:  # else there may be more in this slice
                    floor.step_back()
        except OperationalError as error:
            if sqlstate(error) != QUERY_CANCELED:
                raise
            floor.width = max(floor.width / 2, timedelta(milliseconds=1))
            jobs = []
        floor.rest_after(time.monotonic() - began, time.monotonic())
        return jobs

    def _look_from_start(self, queue: str, floor: Floor, take: int) -> list[ClaimedJob]:
        """End a sweep by a full scan: where it is quick again, so are the next claims; else sweep anew."""
        floor.sweep_top, floor.width = None, FIRST_SLICE
        began, doubts = time.monotonic(), self._doubts
        jobs = self._claim([Span(queue, take)])
        if len(jobs) < take:
            floor.seen = doubts
        if not self._is_slow(time.monotonic() - began, len(jobs)):
            self._slow.discard(queue)
            del self._floors[queue]
        return jobs

    def _is_slow(self, seconds: float, rows: int) -> bool:
        """Tell whether a full scan took much longer than the quickest of late, mostly the way to the server."""
        now = time.monotonic()
        # By time, not by claim: claims that grow slower and slower would drag along what they are compared with.
        self._quickest += (now - self._measured_at) * (CREEP_SECONDS + CREEP_SHARE * self._quickest)
        self._measured_at = now
        # Without what the rows cost: the way to the server is not the scan's fault, its length is.
        rows_seconds = SLOW_SECONDS_A_ROW * rows
        self._quickest = min(self._quickest, max(0.0, seconds - rows_seconds))
        return seconds > SLOW_SECONDS + 3 * self._quickest + rows_seconds

    def _claim(self, spans: Sequence[Span], total: int | None = None) -> list[ClaimedJob]:
        self._spans = spans
        return self._culprits.run(sum(span.take for span in spans) if total is None else total)

    def _claim_around(self, total: int, skip: Sequence[int]) -> list[ClaimedJob]:
        run = partial(self._run_around, list(skip)) if skip else self._run
        return leasing.claim(run, spans=self._spans, worker_id=self._worker_id, lease=self._lease, total=total)

    def _run_around(self, skip: list[int], statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        # Only here: every claim would pay for a condition that is hardly ever needed.
        around = statement.replace(
            "AND job.queue = span.queue", "AND job.queue = span.queue AND NOT (job.id = ANY (%(skip)s::bigint[]))"
        )
        return self._run(around, {**params, "skip": skip})

    def _first(self, skip: Sequence[int]) -> int | None:
        for span in self._spans:
            rows = self._run(sql.FIRST_PENDING, {"queue": span.queue, "skip": list(skip)})
            if rows:
                return int(rows[0][0])
        return None


def _instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)
