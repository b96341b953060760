"""The verbs of Job.objects that need a lease: claim, renew, release, complete, fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import models

from jobqueue.backoff import Backoff
from jobqueue.conf import get_settings
from jobqueue.errors import describe
from jobqueue.exceptions import LeaseLost
from jobqueue.outcomes import Outcome
from jobqueue.payloads import encode_result
from jobqueue.registry import registry
from jobqueue.states import Status

from . import leasing, settling
from .base import JobManagerBase
from .rows import Done, Ending, Fence, Release, Renewal, Span

if TYPE_CHECKING:
    from jobqueue.models import Job


class AttemptMixin(JobManagerBase):
    """Claim jobs and end their attempts; each change is fenced by worker and epoch."""

    def claim(
        self,
        limit: int = 1,
        *,
        worker_id: str,
        queues: Sequence[str] = ("default",),
        lease: timedelta | None = None,
        job_types: Sequence[str] | None = None,
    ) -> list[Job]:
        """Claim up to `limit` due jobs of the queues, in the order given, best first within each.

        `job_types` narrows the claim and then walks past every due job of other types: 265 ms behind a million of them.
        """
        spans = [Span(queue, limit) for queue in queues]
        run = self.run_sql if job_types is None else partial(self._run_narrowed, list(job_types))
        lease = lease or timedelta(seconds=get_settings().LEASE_SECONDS)
        claimed = leasing.claim(run, spans=spans, worker_id=worker_id, lease=lease, total=limit)
        jobs = self.get_queryset().using(self.write_db).in_bulk([row.id for row in claimed])
        return [jobs[row.id] for row in claimed]

    def _run_narrowed(self, job_types: list[str], statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        narrowed = statement.replace(
            "AND job.queue = span.queue", "AND job.queue = span.queue AND job.job_type = ANY (%(job_types)s::text[])"
        )
        return self.run_sql(narrowed, {**params, "job_types": job_types})

    def renew_lease(
        self, jobs: Job | Fence | Iterable[Job | Fence], *, lease: timedelta | None = None
    ) -> list[Renewal]:
        """Renew leases of one worker. Raises LeaseLost when a single job was given and its lease is lost.

        Returns, for each, 'renewed', 'locked' (by somebody's transaction: still ours) or 'lost', and whether a cancel
        was requested.
        """
        fences, single = _fences(jobs)
        lease = lease or timedelta(seconds=get_settings().LEASE_SECONDS)
        renewals: list[Renewal] = []
        for worker_id, group in _by_worker(fences).items():
            held = [(fence.id, fence.lease_epoch, None) for fence in group]
            renewals += leasing.renew(self.run_sql, worker_id=worker_id, held=held, lease=lease)
        if single and renewals[0].verdict == "lost":
            raise LeaseLost(fences[0].id, fences[0].lease_epoch)
        return renewals

    def release(self, jobs: Job | Fence | Iterable[Job | Fence], *, delay: timedelta | None = None) -> dict[int, int]:
        """Give leased jobs back uncharged, at once or after a delay. Raises LeaseLost for a single one that is lost.

        Returns {id: status after}; what is missing was no longer held.
        """
        fences, single = _fences(jobs)
        released: dict[int, int] = {}
        for worker_id, group in _by_worker(fences).items():
            items = [Release(fence.id, fence.lease_epoch, delay) for fence in group]
            released |= leasing.release(self.run_sql, worker_id=worker_id, releases=items)
        return self._checked(fences, released, single=single)

    def complete(self, jobs: Job | Fence | Iterable[Job | Fence], result: Any = None) -> dict[int, int]:
        """Finish leased jobs as DONE with one result (JSON-able). Raises LeaseLost for a single one that is lost.

        Returns {id: DONE}; what is missing was no longer held. A repeated call for an attempt that is DONE is accepted.
        """
        fences, single = _fences(jobs)
        text = encode_result(result, max_bytes=get_settings().RESULT_MAX_BYTES).text
        settled: dict[int, int] = {}
        for worker_id, group in _by_worker(fences).items():
            items = [Done(fence.id, fence.lease_epoch, text) for fence in group]
            settled |= settling.settle_done(self.run_sql, worker_id=worker_id, jobs=items)
        return self._checked(fences, settled, single=single, repeats=(Status.DONE,))

    def fail(
        self,
        jobs: Job | Fence | Iterable[Job | Fence],
        error: BaseException | str,
        *,
        delay: timedelta | None = None,
        outcome: Outcome = Outcome.FAILED,
        dead: bool = False,
    ) -> dict[int, int]:
        """End leased attempts as failed: SCHEDULED after the backoff while attempts are left, else DEAD.

        `delay` replaces the backoff of the job type; `dead` makes a dead letter at once. Raises LeaseLost for a single
        job that is lost. Returns {id: status after}; what is missing was no longer held. A repeated call is accepted.
        """
        fences, single = _fences(jobs)
        raised = error if isinstance(error, BaseException) else RuntimeError(error)
        described = describe(raised, max_bytes=get_settings().ERROR_MAX_BYTES)
        failed = partial(
            Ending,
            outcome=outcome,
            step="dead" if dead else "retry",
            error_class=described.error_class,
            error_text=described.text,
            traceback=described.traceback,
            fingerprint=described.fingerprint,
        )
        delays = {} if delay is not None else self._backoff_delays(fences)
        settled: dict[int, int] = {}
        for worker_id, group in _by_worker(fences).items():
            endings = [
                failed(
                    fence.id, fence.lease_epoch, delay=delays.get(fence.id, timedelta(0)) if delay is None else delay
                )
                for fence in group
            ]
            settled |= settling.settle_ended(self.run_sql, worker_id=worker_id, endings=endings)
        return self._checked(fences, settled, single=single, repeats=tuple(Status))

    def _backoff_delays(self, fences: Iterable[Fence]) -> dict[int, timedelta]:
        """Return, by id, how long the backoff of its type lets each job wait now."""
        rows = self.using(self.write_db).filter(pk__in=[fence.id for fence in fences])
        return {
            job_id: _backoff_of(job_type).delay(max(attempts, 1))
            for job_id, job_type, attempts in rows.values_list("pk", "job_type", "attempts")
        }

    def _checked(
        self, fences: Sequence[Fence], changed: dict[int, int], *, single: bool, repeats: Sequence[Status] = ()
    ) -> dict[int, int]:
        """Add what an earlier call of the same attempt had changed to `repeats`; raise where a single one is lost."""
        missing = [fence for fence in fences if fence.id not in changed]
        if missing and repeats:
            for worker_id, group in _by_worker(missing).items():
                items = [(fence.id, fence.lease_epoch) for fence in group]
                accepted = settling.accepted_before(self.run_sql, worker_id=worker_id, items=items)
                changed |= {job_id: status for job_id, status in accepted.items() if status in repeats}
        if single and fences[0].id not in changed:
            raise LeaseLost(fences[0].id, fences[0].lease_epoch)
        return changed


def _fences(jobs: Job | Fence | Iterable[Job | Fence]) -> tuple[list[Fence], bool]:
    """Return (fences, whether a single job was given)."""
    if isinstance(jobs, Fence):
        return [jobs], True
    if isinstance(jobs, models.Model):
        return [jobs.fence], True
    return [item if isinstance(item, Fence) else item.fence for item in jobs], False


def _backoff_of(job_type: str) -> Backoff:
    if job_type in registry:
        return registry.get(job_type).backoff
    settings = get_settings()
    return Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS)


def _by_worker(fences: Iterable[Fence]) -> dict[str, list[Fence]]:
    groups: dict[str, list[Fence]] = {}
    for fence in fences:
        groups.setdefault(fence.worker_id, []).append(fence)
    return groups
