"""A small model of the queue: what each verb of the manager does to rows, in plain Python.

It is written from docs/states.md, not from the SQL. Here are the verbs that need no lease; sides.py knows who sees
what, leases.py what workers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .jobs import CANCELLED, DEAD, PENDING, RUNNING, SCHEDULED, SECOND, Between, ModelJob, Run
from .leases import Leases

PATIENCE = 600 * SECOND
LOST = "jobqueue.exceptions.LeaseLost"
LOCKED_TEXT = "is locked by another transaction: try again"
NAMES = {1: "PENDING", 2: "RUNNING", 3: "DONE", 4: "DEAD", 5: "SCHEDULED", 7: "CANCELLED"}
Refusals = dict[int, str]


class Model(Leases):
    """The queue as two sides see it."""

    # -- maintenance ----------------------------------------------------------------------------------------------

    def reap(self, side: int, limit: int) -> dict[int, int]:
        """Take back jobs whose lease ran out; return the status after."""
        statuses = {}
        expired = [job for job in self.view(side).values() if job.status == RUNNING and job.lease_until < self.before]
        for job in [job for job in expired if not self.locked(side, job.id)][:limit]:
            asked, spent = job.cancel_requested_at is not None, job.attempts >= job.max_attempts
            status = CANCELLED if asked else DEAD if spent else PENDING
            text = "worker lost: its lease ran out before it settled the job"
            cost = self.charge_open(side, job)
            again = {"run_after": self.now(), "progress": None} if status == PENDING else {"finished_at": self.now()}
            after = self._set(
                side,
                job,
                **again,
                status=status,
                outcome=6,
                last_error=f"{job.last_error or ''} [lease-expired reclaim]",
                error_class=job.error_class or LOST,
                # A handler that ran shows that the type was known.
                unknown_since=job.unknown_since if job.run_started_at is None else None,
                cost_last=cost,
                cost_total=job.cost_total + cost,
                open_costs=None,
                worker_id=None,
                lease_until=None,
                runs=(*job.runs, Run(job.lease_epoch, job.attempts, job.worker_id or "", 6, LOST, text, cost)),
            )
            self._count(side, after, 6, dead=status == DEAD)
            if status == DEAD:
                self._notice(side, after, "dead")
            statuses[job.id] = status
        return statuses

    def promote(self, side: int, limit: int) -> list[int]:
        """Make scheduled jobs due whose time has come, earliest first; return the ids."""
        come = [job for job in self.view(side).values() if job.status == SCHEDULED and job.run_after <= self.before]
        free = sorted((job for job in come if not self.locked(side, job.id)), key=lambda job: (job.run_after, job.id))
        return [self._set(side, job, status=PENDING).id for job in free[:limit]]

    def prune(self, side: int, status: int, age_seconds: int, limit: int) -> list[int]:
        """Delete finished jobs of one status past an age, oldest first; return the ids."""
        horizon = self.before - age_seconds * SECOND
        old = [job for job in self.view(side).values() if job.status == status and job.finished_at < horizon]
        free = [job for job in old if not self.locked(side, job.id, "UPDATE")]
        pruned = [job.id for job in sorted(free, key=lambda job: (job.finished_at, job.id))[:limit]]
        for job_id in pruned:
            self.written(side).jobs[job_id] = None
        if side not in self.open:
            self.committed.jobs = {job_id: job for job_id, job in self.committed.jobs.items() if job is not None}
        return pruned

    # -- people ---------------------------------------------------------------------------------------------------

    def _move(
        self, side: int, ids: Iterable[int], statuses: Sequence[int], move: Callable[[ModelJob], int | str]
    ) -> tuple[dict[int, int], Refusals]:
        """Move each job that is in one of the statuses and within reach; return what changed, and why not."""
        changed: dict[int, int] = {}
        refused: Refusals = {}
        for job_id in sorted(set(ids)):
            job = self.view(side).get(job_id)
            if job is None:
                refused[job_id] = "no such job"
            elif job.status not in statuses:
                refused[job_id] = f"is {NAMES[job.status]}"
            else:
                answer = move(job)
                if isinstance(answer, int):
                    changed[job_id] = answer
                else:
                    refused[job_id] = answer
        return changed, refused

    def cancel(self, side: int, ids: Iterable[int], reason: str) -> tuple[dict[int, int], Refusals]:
        """Cancel waiting jobs, ask running ones."""

        def move(job: ModelJob) -> int | str:
            if self.locked(side, job.id):
                return LOCKED_TEXT
            asked = {"cancel_requested_at": job.cancel_requested_at or self.now()}
            over = {"status": CANCELLED, "outcome": 8, "finished_at": self.now()}
            text = reason or job.last_error
            return self._set(side, job, last_error=text, **asked, **({} if job.status == RUNNING else over)).status

        return self._move(side, ids, (PENDING, RUNNING, SCHEDULED), move)

    def redrive(self, side: int, ids: Iterable[int], spread: float) -> tuple[dict[int, int], Refusals]:
        """Put dead letters back with a fresh budget, unless another job holds or outranks their key."""
        seen = self.view(side)  # a batch judges by what it found, not by what it does itself
        newest = {job.dedupe_key: job.id for job in seen.values() if job.status == DEAD}

        def move(job: ModelJob) -> int | str:
            active = next((j for j in seen.values() if j.active and j.dedupe_key == job.dedupe_key), None)
            if job.dedupe_key is not None and (active or newest[job.dedupe_key] != job.id):
                return f"blocked by #{active.id if active else newest[job.dedupe_key]}"
            if self.locked(side, job.id) or self.key_in_doubt(side, job.dedupe_key):
                return LOCKED_TEXT
            fresh: dict[str, Any] = {
                "attempts": 0,
                "interruptions": 0,
                "finished_at": None,
                "worker_id": None,
                "progress": None,
            }
            due = Between(self.now().earliest, self.now(spread).latest)
            status = SCHEDULED if spread else PENDING
            fresh |= {"status": status, "run_after": due, "cancel_requested_at": None, "unknown_since": None}
            return self._set(side, job, **fresh).status

        return self._move(side, ids, (DEAD,), move)

    def discard(self, side: int, ids: Iterable[int], reason: str) -> tuple[dict[int, int], Refusals]:
        """Give dead letters up."""

        def move(job: ModelJob) -> int | str:
            if self.locked(side, job.id):
                return LOCKED_TEXT
            text = f"{job.last_error or ''} [discarded: {reason}]" if reason else job.last_error
            over = {"status": CANCELLED, "outcome": 9, "finished_at": self.now(), "last_error": text}
            return self._set(side, job, **over).status

        return self._move(side, ids, (DEAD,), move)

    def release_stuck(self, side: int, ids: Iterable[int], reason: str) -> tuple[dict[int, int], Refusals]:
        """Give stuck jobs back, uncharged, with an attempt that says so."""

        def move(job: ModelJob) -> int | str:
            if self.locked(side, job.id):
                return LOCKED_TEXT
            began = max(at for at in (job.run_started_at, job.claimed_at) if at is not None)
            if job.lease_until >= self.before and began >= self.before - PATIENCE:
                if side in self.open:
                    self.lock(side, job.id, "NO KEY UPDATE")  # it was locked to be looked at
                return "is not stuck: its worker holds the lease"
            outcome = 7 if job.cancel_requested_at is None else 8
            text = "released by a person while it was stuck" + (f": {reason}" if reason else "")
            cost = self.charge_open(side, job)
            run = Run(job.lease_epoch, job.attempts, job.worker_id or "", outcome, LOST, text, cost)
            self._count(side, job, outcome)
            told: dict[str, Any] = {"outcome": outcome, "interruptions": job.interruptions + 1, "open_costs": None}
            told |= {"cost_last": cost, "cost_total": job.cost_total + cost}
            told |= {"unknown_since": job.unknown_since if job.run_started_at is None else None}
            return self._give_back(side, job, PENDING, **told, runs=(*job.runs, run)).status

        return self._move(side, ids, (RUNNING,), move)
