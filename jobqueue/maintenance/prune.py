"""Delete finished jobs past their retention, in small committed batches, with their attempts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import IntegrityError

from jobqueue.conf import get_settings
from jobqueue.managers import moving
from jobqueue.managers.rows import Run
from jobqueue.states import Status

logger = logging.getLogger("jobqueue.maintenance")

BATCH = 500


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


class Prune:
    """Prunes; rows that a foreign key of the project refers to are kept, counted and named."""

    name = "prune"
    more = False

    def __init__(
        self, run: Run, *, interval_seconds: float = 30.0, ages: dict[Status, timedelta] | None = None
    ) -> None:
        self._run, self._ages = run, ages
        self.interval_seconds = interval_seconds
        self.kept: set[int] = set()
        self._told: set[int] = set()

    def run_once(self, limit: int = BATCH) -> dict[str, int]:
        """Delete one batch of each status that has one, each of at most `limit` jobs."""
        counts: dict[str, int] = {}
        self.more = False
        for status, age in (retentions() if self._ages is None else self._ages).items():
            deleted = self._batch(status, age, limit)
            if deleted:
                counts[status.name.lower()] = len(deleted)
                self.more = self.more or len(deleted) == BATCH
        if new := self.kept - self._told:
            self._told |= new
            logger.warning("jobs kept, a foreign key refers to them: %s, such as %s", len(new), sorted(new)[:5])
        return counts

    def _batch(self, status: Status, age: timedelta, limit: int) -> Sequence[int]:
        """Delete one batch; where a foreign key refuses it, halve it until the row that is referred to stands alone."""
        try:
            return moving.prune(self._run, status=status, age=age, limit=limit, keep=sorted(self.kept))
        except IntegrityError:
            if limit > 1:
                first = self._batch(status, age, limit // 2)
                return [*first, *self._batch(status, age, limit - limit // 2)]
            self._keep_first(status, age)
            return []

    def _keep_first(self, status: Status, age: timedelta) -> None:
        row = self._run(
            "SELECT id FROM jobqueue_job WHERE status = %(status)s"
            " AND finished_at < statement_timestamp() - %(age)s::interval"
            " AND NOT (id = ANY (%(kept)s::bigint[])) ORDER BY finished_at, id LIMIT 1",
            {"status": int(status), "age": age, "kept": sorted(self.kept)},
        )
        if row:
            self.kept.add(row[0][0])
