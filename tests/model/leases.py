"""The half of the model that needs a lease: claim, renew, settle, release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from jobqueue.managers import CostLine, Done, Ending, Fence, Release

from .jobs import CANCELLED, DEAD, DONE, PENDING, RUNNING, SCHEDULED, Between, Locked, ModelJob, Run, Time
from .sides import Sides

LEASE_SECONDS = 1_000


class Leases(Sides):
    """What workers do."""

    def claim(
        self, side: int, worker_id: str, queues: Sequence[str], limit: int, types: Sequence[str] | None
    ) -> list[tuple[int, int]]:
        """Claim; return (id, lease_epoch) best first."""
        picked: list[ModelJob] = []
        for queue in queues:
            due = [
                job
                for job in self.view(side).values()
                if job.status == PENDING and job.queue == queue and (types is None or job.job_type in types)
            ]
            free = sorted((job for job in due if not self.locked(side, job.id)), key=lambda job: job.key)
            picked += free[: limit - len(picked)]
        for job in picked:
            self._set(
                side,
                job,
                status=RUNNING,
                worker_id=worker_id,
                lease_epoch=job.lease_epoch + 1,
                attempts=job.attempts + 1,
                lease_until=self.now(LEASE_SECONDS),
                claimed_at=self.now(),
                run_started_at=None,
            )
        return [(job.id, job.lease_epoch + 1) for job in sorted(picked, key=lambda job: job.key)]

    def held(self, side: int, fence: tuple[int, str, int]) -> ModelJob | None:
        """Return the job whose running attempt the fence names."""
        job = self.view(side).get(fence[0])
        return job if job and job.status == RUNNING and (job.worker_id, job.lease_epoch) == fence[1:] else None

    def accepted_before(self, side: int, fence: tuple[int, str, int]) -> int | None:
        """Return the status of a job that this attempt has settled."""
        job = self.view(side).get(fence[0])
        over = job and job.status != RUNNING and (job.worker_id, job.lease_epoch) == fence[1:]
        return job.status if job and over else None

    def renew(
        self, side: int, worker_id: str, held: Iterable[tuple[int, int, float | None]]
    ) -> dict[int, tuple[str, bool]]:
        """Renew leases; return for each id the verdict, and whether a cancel was requested."""
        answers = {}
        for job_id, epoch, seconds in held:
            job = self.held(side, (job_id, worker_id, epoch))
            if job is None:
                answers[job_id] = ("lost", False)
                continue
            cancel = job.cancel_requested_at is not None
            answers[job_id] = ("locked" if self.locked(side, job_id) else "renewed", cancel)
            if not self.locked(side, job_id):
                started = None if seconds is None else self.now(-seconds)
                self._set(
                    side,
                    job,
                    lease_until=self.now(LEASE_SECONDS),
                    run_started_at=job.run_started_at or started,
                    first_started_at=job.first_started_at or started,
                )
        return answers

    def progress(self, side: int, worker_id: str, noted: dict[tuple[int, int], Any]) -> None:
        for (job_id, epoch), value in noted.items():
            job = self.held(side, (job_id, worker_id, epoch))
            if job and not self.locked(side, job_id):
                self._set(side, job, progress=value)

    def write_costs(self, side: int, worker_id: str, spent: dict[tuple[int, int], Sequence[CostLine]]) -> set[int]:
        """Keep what running attempts have cost so far; return the ids of those that were ours and not locked."""
        written = set()
        for (job_id, epoch), lines in spent.items():
            job = self.held(side, (job_id, worker_id, epoch))
            if job and not self.locked(side, job_id):
                self._set(side, job, open_costs=[[line.component, line.unit, f"{line.amount:.8f}"] for line in lines])
                written.add(job_id)
        return written

    def charge_open(self, side: int, job: ModelJob) -> int:
        """Charge a lost attempt what was written of it; return the cents."""
        for component, _, amount in job.open_costs or ():
            self.written(side).costs[job.queue, job.job_type, component] += int(Decimal(amount) * 100)
        return sum(int(Decimal(amount) * 100) for _, _, amount in job.open_costs or ())

    def _ours(self, side: int, worker_id: str, items: Sequence[Any]) -> list[tuple[Any, ModelJob]]:
        """Return the items whose attempts are still this worker's. Raises Locked where one is in another's hands."""
        held = [(item, self.held(side, (item.id, worker_id, item.lease_epoch))) for item in items]
        ours = [(item, job) for item, job in sorted(held, key=lambda pair: pair[0].id) if job is not None]
        if any(self.locked(side, job.id) for _, job in ours):
            raise Locked
        return ours

    def _charge(self, side: int, job: ModelJob, end: Done | Ending | Release) -> int:
        for line in end.costs:
            self.written(side).costs[job.queue, job.job_type, line.component] += int(line.amount * 100)
        return sum(int(line.amount * 100) for line in end.costs)

    def _count(self, side: int, job: ModelJob, outcome: int, *, dead: bool = False) -> None:
        self.written(side).counts[job.queue, job.job_type, outcome] += 1
        self.written(side).dead[job.queue, job.job_type, outcome] += dead

    def _started(self, job: ModelJob, seconds: Between) -> dict[str, Time]:
        return {"run_started_at": seconds, "first_started_at": job.first_started_at or seconds}

    def settle_done(self, side: int, worker_id: str, dones: Sequence[Done], result: Any) -> dict[int, int]:
        """Finish jobs; return the status of each that was ours."""
        ours = self._ours(side, worker_id, dones)
        for done, job in ours:
            cost = self._charge(side, job, done)
            self._count(side, job, 1)
            self._set(
                side,
                job,
                **self._started(job, self.now(-done.run_seconds)),
                status=DONE,
                outcome=1,
                result=result,
                finished_at=self.now(),
                lease_until=None,
                unknown_since=None,
                progress=None,
                open_costs=None,
                cost_last=cost,
                cost_total=job.cost_total + cost,
            )
        return {job.id: DONE for _, job in ours}

    def complete_within(self, side: int, fence: Fence, slack: float) -> bool:
        """Finish one job as context.complete() does; its run began at most `slack` seconds ago."""
        done = Done(fence.id, fence.lease_epoch)
        if not self.settle_done(side, fence.worker_id, [done], None):
            return False
        job = self.written(side).jobs[fence.id]
        assert job is not None
        began = Between(self.now(-slack).earliest, self.now().latest)
        job.run_started_at = began
        job.first_started_at = began if isinstance(job.first_started_at, Between) else job.first_started_at
        return True

    def settle_ended(self, side: int, worker_id: str, endings: Sequence[Ending]) -> dict[int, int]:
        """End attempts that did not go well; return the status after."""
        return {job.id: self._end(side, ending, job) for ending, job in self._ours(side, worker_id, endings)}

    def _end(self, side: int, ending: Ending, job: ModelJob) -> int:
        asked = job.cancel_requested_at is not None
        interrupted = ending.step == "interrupt"
        spared = interrupted and job.interruptions < self.budget and not asked
        if asked or ending.step == "cancel":
            status = CANCELLED
        elif spared:
            status = PENDING
        elif ending.step == "dead" or job.attempts >= job.max_attempts:
            status = DEAD
        else:
            status = PENDING if interrupted else SCHEDULED
        over = status in (DEAD, CANCELLED)
        outcome = int(ending.outcome)
        cost = self._charge(side, job, ending)
        self._count(side, job, outcome, dead=status == DEAD)
        texts = (ending.error_class or "", ending.error_text or "")
        after = self._set(
            side,
            job,
            **self._started(job, self.now(-ending.run_seconds)),
            status=status,
            outcome=outcome,
            run_after=self.now(ending.delay.total_seconds()) if status == SCHEDULED else job.run_after,
            finished_at=self.now() if over else None,
            attempts=job.attempts - spared,
            interruptions=job.interruptions + interrupted,
            lease_until=None,
            unknown_since=None,
            progress=job.progress if over else None,
            open_costs=None,
            last_error=ending.error_text if ending.error_text is not None else job.last_error,
            error_class=ending.error_class if ending.error_class is not None else job.error_class,
            cost_last=cost,
            cost_total=job.cost_total + cost,
            runs=(*job.runs, Run(job.lease_epoch, job.attempts, job.worker_id or "", outcome, *texts, cost)),
        )
        if status == DEAD or (ending.limit_hit and status != CANCELLED):
            self._notice(side, after, "limit" if ending.limit_hit else "dead")
        return status

    def _notice(self, side: int, job: ModelJob, reason: str) -> None:
        if self.notices and job.job_type != "jobqueue.notify":
            told = {"job_id": job.id, "job_type": job.job_type, "queue": job.queue, "owner": job.owner}
            told |= {"outcome": job.outcome, "reason": reason, "attempts": job.attempts}
            self.written(side).notices.append(told)

    def release(self, side: int, worker_id: str, releases: Sequence[Release]) -> dict[int, int]:
        """Give leased jobs back, uncharged; return the status after."""
        statuses = {}
        for item, job in self._ours(side, worker_id, releases):
            cost = self._charge(side, job, item)
            due: dict[str, Any] = {} if item.delay is None else {"run_after": self.now(item.delay.total_seconds())}
            since = (job.unknown_since or self.now()) if item.unknown else None
            status = PENDING if item.delay is None else SCHEDULED
            due |= {"unknown_since": since, "cost_total": job.cost_total + cost, "open_costs": None}
            after = self._give_back(side, job, status, **due)
            statuses[job.id] = after.status
        return statuses

    def _give_back(self, side: int, job: ModelJob, status: int, **values: Any) -> ModelJob:
        """End an attempt that counts for nothing; a requested cancel wins."""
        asked = job.cancel_requested_at is not None
        given: dict[str, Any] = {"status": status, "progress": None, **values}
        if asked:
            given |= {"status": CANCELLED, "progress": job.progress, "outcome": 8, "finished_at": self.now()}
        return self._set(side, job, attempts=job.attempts - 1, worker_id=None, lease_until=None, **given)

    def release_strays(self, side: int, worker_id: str, known: Iterable[int]) -> list[int]:
        """Give back what a worker holds and does not know of; return the ids."""
        strays = [
            job
            for job in self.view(side).values()
            if job.status == RUNNING and job.worker_id == worker_id and job.id not in known
        ]
        return [self._give_back(side, job, PENDING).id for job in strays if not self.locked(side, job.id)]
