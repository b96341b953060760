"""What stands between a waiting job and a worker, by the very conditions that a claim has.

A claim takes the PENDING jobs of a queue that is not paused, best first, for a free slot of a worker that serves the
queue. Each of these is looked at by itself, so several reasons may hold at once: the first is the one to deal with.
What lies in a worker's own memory, such as the floor that it claims from (docs/lease.md), can only be supposed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobqueue import sql
from jobqueue.exceptions import JobQueueError
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers.pausing import ALL_QUEUES, BY_BUDGET
from jobqueue.models import Budget, Job
from jobqueue.registry import registry
from jobqueue.states import Status

from .alert_words import spoken
from .worker_figures import MOST_WORKERS, silent_after

#: Jobs ahead of one are counted up to here.
AHEAD_CAP: Final = 10_000
#: A first job that free workers leave alone for so long is not just about to be claimed.
OVERLOOKED_SECONDS: Final = 10.0


class Reason(NamedTuple):
    """One answer; `code` is for programs and tests, `text` a sentence for people in their language."""

    code: str
    text: str


def waiting(job: Job, alias: str) -> list[Reason]:
    """Return what keeps a PENDING or SCHEDULED job from being claimed, most important first."""
    params = {"id": job.pk, "workers": MOST_WORKERS, "cap": AHEAD_CAP + 1}
    rows = Job.objects.db_manager(alias).run_sql(sql.WAITING_JOB, params)
    if not rows:
        return [Reason("gone", _("The job is gone."))]
    now, pauses, workers, ahead = rows[0]
    overdue = (now - job.run_after).total_seconds()
    reasons = _not_due(job, overdue) if job.status == Status.SCHEDULED else []
    reasons += [reason for pause in _read(pauses) for reason in _paused(job, pause, alias)]
    reasons += _hands(job, [_Worker(*worker) for worker in _read(workers)])
    reasons += _unknown_type(job)
    if job.status != Status.PENDING:
        return reasons
    if ahead:
        reasons.append(_ahead(job, ahead))
    if not reasons:
        reasons.append(_next(overdue))
    return reasons


class _Worker(NamedTuple):
    queues: list[str]
    slots: int
    busy: int
    stopping: bool
    silent_seconds: float

    def serves(self, queue: str) -> bool:
        """Tell whether it claims from a queue; all do from the package's own."""
        return queue == INTERNAL_QUEUE or bool({queue, "*"} & {*self.queues})


def _read(value: str | None) -> list[Any]:
    """Return the rows of a jsonb column, which Django's cursors give as text."""
    rows: list[Any] = json.loads(value or "[]")
    return rows


def _not_due(job: Job, overdue: float) -> list[Reason]:
    if overdue >= 0:
        return [
            Reason(
                "promotion",
                _("It was due at %(time)s: the maintenance of any living worker makes it claimable within a second.")
                % {"time": at(job.run_after)},
            )
        ]
    told = {"time": at(job.run_after), "span": spoken(-overdue)}
    if job.attempts and job.outcome is not None:
        told["outcome"] = str(job.get_outcome_display())
        return [
            Reason(
                "retry", _("Its last attempt ended (%(outcome)s): it is tried again at %(time)s, in %(span)s.") % told
            )
        ]
    return [Reason("scheduled", _("It is not due before %(time)s, in %(span)s.") % told)]


def _paused(job: Job, pause: list[Any], alias: str) -> list[Reason]:
    name, who, reason, until = pause
    told = {"queue": job.queue, "who": who or "-", "why": f" ({reason})" if reason else ""}
    told["until"] = at(datetime.fromtimestamp(until, UTC)) if until is not None else _("somebody resumes it")
    if who.startswith(BY_BUDGET):
        return [_budget(who.removeprefix(BY_BUDGET), told, alias)]
    if name == ALL_QUEUES:
        return [Reason("all_paused", _("All queues are paused by %(who)s until %(until)s%(why)s.") % told)]
    return [Reason("paused", _("Its queue %(queue)s is paused by %(who)s until %(until)s%(why)s.") % told)]


def _budget(name: str, told: dict[str, Any], alias: str) -> Reason:
    row = Budget.objects.using(alias).filter(name=name).first()
    told |= {"budget": name, "spent": "?", "amount": "?", "unit": ""}
    if row is not None:
        told |= {"spent": f"{row.spent.normalize():f}", "amount": f"{row.amount.normalize():f}", "unit": row.unit}
    text = _(
        "The budget %(budget)s is spent, %(spent)s of %(amount)s %(unit)s:"
        " the queue %(queue)s is paused until %(until)s."
    )
    return Reason("budget", text % told)


def _hands(job: Job, workers: list[_Worker]) -> list[Reason]:
    """Say what is wrong with the workers: none, none of this queue, only dying ones, or none that has a free slot."""
    alive = [worker for worker in workers if worker.silent_seconds < silent_after()]
    serving = [worker for worker in alive if worker.serves(job.queue)]
    working = [worker for worker in serving if not worker.stopping]
    told = {"queue": job.queue, "workers": len(alive)}
    if not alive:
        return [Reason("no_worker", _("No worker is alive. Start one with manage.py jobqueue_worker."))]
    if not serving:
        text = ngettext(
            "No living worker serves its queue %(queue)s: the one that lives serves others.",
            "No living worker serves its queue %(queue)s: all %(workers)d that live serve others.",
            len(alive),
        )
        return [Reason("no_worker_for_queue", text % told)]
    if not working:
        return [Reason("workers_stopping", _("Every worker that serves its queue %(queue)s is stopping.") % told)]
    slots, busy = sum(worker.slots for worker in working), sum(min(worker.busy, worker.slots) for worker in working)
    if job.queue != INTERNAL_QUEUE and busy >= slots:  # the package's own has a slot that is not counted here
        text = ngettext(
            "The only slot that serves its queue is busy.",
            "All slots that serve its queue are busy: %(busy)d of %(slots)d.",
            slots,
        )
        return [Reason("busy", text % {"busy": busy, "slots": slots})]
    return []


def _unknown_type(job: Job) -> list[Reason]:
    reasons = []
    if job.unknown_since is not None:
        text = _("Workers have claimed it since %(time)s and gave it back: their code does not know the type %(type)s.")
        reasons.append(Reason("unknown_to_workers", text % {"time": at(job.unknown_since), "type": job.job_type}))
    try:
        registry.resolve(job.job_type, job.payload)
    except JobQueueError:
        text = _("The code of this site declares no handler for the type %(type)s.")
        reasons.append(Reason("unknown_type", text % {"type": job.job_type}))
    return reasons


def _ahead(job: Job, ahead: int) -> Reason:
    told = {"jobs": min(ahead, AHEAD_CAP), "queue": job.queue}
    if ahead > AHEAD_CAP:
        return Reason("ahead", _("At least %(jobs)d jobs of its queue %(queue)s are claimed before it.") % told)
    text = ngettext(
        "%(jobs)d job of its queue %(queue)s is claimed before it.",
        "%(jobs)d jobs of its queue %(queue)s are claimed before it.",
        ahead,
    )
    return Reason("ahead", text % told)


def _next(overdue: float) -> Reason:
    if overdue <= OVERLOOKED_SECONDS:
        return Reason("next", _("Nothing: it is the next of its queue, and a slot is free. It is claimed in a moment."))
    text = _(
        "It is the next of its queue and a slot is free, yet it has been due for %(span)s. Another transaction may hold"
        " its row, the free slots may be reserved for other queues, or it lies behind the point that a slow database"
        " makes workers claim from: then their next sweep finds it."
    )
    return Reason("overlooked", text % {"span": spoken(overdue)})


def at(instant: datetime) -> str:
    """Return an instant in the current zone."""
    return f"{timezone.localtime(instant):%Y-%m-%d %H:%M:%S}"
