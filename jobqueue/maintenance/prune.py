"""Delete finished jobs past their retention, in small committed batches, with their attempts."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import IntegrityError

from jobqueue.conf import get_settings
from jobqueue.logs import Quietly
from jobqueue.managers import moving
from jobqueue.managers.rows import Run
from jobqueue.states import Status

logger = logging.getLogger("jobqueue.maintenance")

BATCH = 500
MOST_REFUSALS, ROUND_SECONDS = 20, 1.0  # of one round: all services of a worker share one thread
ANEW_SECONDS, ANEW_RESTS = 3600.0, 20  # from pass to pass; and at least so many times what the last one took


@dataclass(slots=True)
class Pruned:
    """What a run deleted, by status, and the ids that a foreign key of the project keeps."""

    deleted: dict[Status, int] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)


def retentions() -> dict[Status, timedelta]:
    """Return the ages past which jobs are deleted, by status; a status that is kept for good is left out."""
    settings = get_settings()
    ages = {
        Status.DONE: settings.RETENTION_DONE_SECONDS,
        Status.CANCELLED: settings.RETENTION_CANCELLED_SECONDS,
        Status.DEAD: settings.RETENTION_DEAD_SECONDS,
    }
    return {status: timedelta(seconds=age) for status, age in ages.items() if age is not None}


@dataclass(slots=True)
class Pass:
    """One way through the jobs of a status, oldest first: when it began and where it has come to."""

    began: float  # monotonic
    after: tuple[datetime, int] | None = None  # (finished_at, id) of the last job that is kept
    anew_at: float | None = None  # monotonic: when the next one begins, once this one has come to the end
    take: int = BATCH  # of the next statement: where a round ended among jobs that are kept, the next one begins there


class Prune:
    """Prunes; rows that a foreign key of the project refers to are kept, counted and named.

    A statement that one of them refuses deletes nothing, so the batch is halved until that row stands alone, and all
    others are looked for behind it: with a list of those kept, each statement would walk past every one of them. An
    hour later the next pass finds those that nothing refers to any more.
    """

    name = "prune"
    more = False

    def __init__(
        self, run: Run, *, interval_seconds: float = 30.0, ages: dict[Status, timedelta] | None = None
    ) -> None:
        self._run, self._ages = run, ages
        self.interval_seconds = interval_seconds
        self.kept: set[int] = set()
        self._told = 0
        self._passes: dict[Status, Pass] = {}
        self._quietly = Quietly(logger)

    def run_once(self, limit: int = BATCH) -> dict[str, int]:
        """Delete one batch of each status that has one, each of at most `limit` jobs."""
        counts: dict[str, int] = {}
        self.more = False
        ends_at = time.monotonic() + ROUND_SECONDS
        for status, age in (retentions() if self._ages is None else self._ages).items():
            if deleted := self._batch(status, age, limit, ends_at):
                counts[status.name.lower()] = deleted
        if len(self.kept) > self._told:
            self._told = len(self.kept)
            some = sorted(self.kept)[:5]
            self._quietly.warning("jobs kept, a foreign key refers to them: %s, such as %s", self._told, some)
        return counts

    def _batch(self, status: Status, age: timedelta, limit: int, ends_at: float) -> int:
        """Delete one batch, or as much of it as MOST_REFUSALS and the time allow: promote and reap wait for it."""
        place = self._pass_of(status)
        deleted, refusals, found = 0, 0, False
        while deleted < limit:
            if (refusals >= MOST_REFUSALS or time.monotonic() >= ends_at) and (deleted or found):
                break
            asked = min(place.take, limit - deleted)
            try:
                gone = moving.prune(self._run, status=status, age=age, limit=asked, after=place.after)
            except IntegrityError:
                refusals += 1
                if asked == 1:
                    self._keep_first(status, age, place)
                    found = True
                place.take = max(1, asked // 2)
                continue
            deleted += len(gone)
            self.kept.difference_update(gone)
            if len(gone) < asked:
                self._came_to_the_end(place)
                return deleted
            place.take = min(BATCH, 2 * asked)
        self.more = True
        return deleted

    def _pass_of(self, status: Status) -> Pass:
        place, now = self._passes.get(status), time.monotonic()
        if place is None or (place.anew_at is not None and now >= place.anew_at):
            place = self._passes[status] = Pass(now)
        return place

    def _came_to_the_end(self, place: Pass) -> None:
        place.take = BATCH
        if place.anew_at is None:
            now = time.monotonic()
            # With a million jobs kept a pass is hours of refusals: not one after the other, in every worker.
            place.anew_at = max(place.began + ANEW_SECONDS, now + ANEW_RESTS * (now - place.began))

    def _keep_first(self, status: Status, age: timedelta, place: Pass) -> None:
        after_at, after_id = place.after or ("-infinity", 0)
        row = self._run(
            "SELECT id, finished_at FROM jobqueue_job WHERE status = %(status)s"
            " AND finished_at < statement_timestamp() - %(age)s::interval"
            " AND (finished_at, id) > (%(after_at)s::timestamptz, %(after_id)s::bigint)"
            " ORDER BY finished_at, id LIMIT 1",
            {"status": int(status), "age": age, "after_at": after_at, "after_id": after_id},
        )
        if row:
            job_id, finished_at = row[0]
            self.kept.add(job_id)
            place.after = (finished_at, job_id)
