"""The half of the model that knows who sees what: two sides, their open transactions, their locks.

A *side* is one of two connections. What a side has written in an open transaction is seen by itself only, and the rows
it has touched or locked are out of the other's reach: some verbs step over them, others wait for them (here: until
their lock_timeout, which is the exception Locked).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .jobs import CONFLICTS, PENDING, SCHEDULED, SECOND, TIMES, Between, Locked, ModelJob, Written


class Sides:
    """The queue as two sides see it."""

    def __init__(self, *, budget: int, notices: bool) -> None:
        self.budget, self.notices = budget, notices
        self.committed = Written()
        self.open: dict[int, Written] = {}
        self.before = self.after = 0  # the step under way happened between these two times of the server

    # -- transactions and locks -----------------------------------------------------------------------------------

    def begin(self, side: int) -> None:
        self.open[side] = Written()

    def commit(self, side: int) -> None:
        self.committed.absorb(self.open.pop(side))

    def rollback(self, side: int) -> None:
        del self.open[side]

    def written(self, side: int) -> Written:
        return self.open.get(side, self.committed)

    def view(self, side: int | None) -> dict[int, ModelJob]:
        """Return the jobs that a side sees (None: what is committed), by id."""
        own = self.open[side].jobs if side in self.open else {}
        jobs = {**self.committed.jobs, **own}
        return {job_id: job for job_id, job in sorted(jobs.items()) if job is not None}

    def _others(self, side: int) -> Iterator[Written]:
        return (written for other, written in self.open.items() if other != side)

    def lock(self, side: int, job_id: int, strength: str) -> None:
        self.open[side].locks.setdefault(job_id, set()).add(strength)

    def locked(self, side: int, job_id: int, wanted: str = "NO KEY UPDATE") -> bool:
        """Tell whether another side's transaction keeps the row from a statement of this side."""
        return any(
            job_id in written.jobs or written.locks.get(job_id, set()) & CONFLICTS[wanted]
            for written in self._others(side)
        )

    def key_in_doubt(self, side: int, key: str | None) -> bool:
        """Tell whether another side's open transaction decides who holds the key: whoever wants it has to wait."""
        return any(key in written.keys for written in self._others(side))

    def holder(self, side: int, key: str | None) -> ModelJob | None:
        """Return the active job that holds a key."""
        return next((job for job in self.view(side).values() if key and job.dedupe_key == key and job.active), None)

    def _set(self, side: int, job: ModelJob, **values: Any) -> ModelJob:
        changed = replace(job, updated_at=self.now(), **values)
        return self._put(side, changed, key=job.active or changed.active)

    def _put(self, side: int, job: ModelJob, *, key: bool) -> ModelJob:
        written = self.written(side)
        written.jobs[job.id] = job
        if key and job.dedupe_key is not None:
            written.keys.add(job.dedupe_key)
        return job

    def now(self, seconds: float = 0) -> Between:
        """Return the time of the step, or that many seconds from it."""
        shift = round(seconds * SECOND)
        return Between(self.before + shift - 2, self.after + shift + 2)

    def pass_time(self, seconds: int) -> None:
        for job in self.committed.jobs.values():
            assert job is not None
            for name in TIMES:
                at = getattr(job, name)
                setattr(job, name, at if at is None else at - seconds * SECOND)

    def enqueue(self, side: int, jobs: Sequence[tuple[dict[str, Any], int | None]]) -> list[bool]:
        """Enqueue jobs with the ids that the server gave them; tell for each whether its key was free."""
        if any(self.key_in_doubt(side, terms["dedupe_key"]) for terms, _ in jobs):
            raise Locked
        answers = []
        for terms, job_id in jobs:
            free = self.holder(side, terms["dedupe_key"]) is None
            answers.append(free)
            if free and job_id is not None:
                now = self.now()
                delay = terms["delay"]
                due = self.now(delay or 0)
                status = SCHEDULED if (delay or 0) > 0 else PENDING
                fields = {name: value for name, value in terms.items() if name != "delay"}
                job = ModelJob(job_id, status=status, run_after=due, created_at=now, updated_at=now, **fields)
                self._put(side, job, key=True)
        return answers
