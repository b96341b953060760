"""Why is this job not running? What stands in its way (waiting_reasons.py), what it is doing, or how it ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobqueue import sql
from jobqueue.managers.querysets import patience
from jobqueue.models import Job
from jobqueue.outcomes import FATAL_OUTCOMES, Outcome
from jobqueue.redaction import mask_text
from jobqueue.states import Status, status_name

from .alert_words import spoken
from .limited import Budget, read_within
from .waiting_reasons import Reason, at, waiting
from .worker_figures import silent_after

__all__ = ["STUCK", "Reason", "why"]

LIMIT: Final = timedelta(milliseconds=500)

#: The codes of a running job that QuerySet.stuck() finds.
STUCK: Final = frozenset({"lease_expired", "overlong"})


def why(job: Job, *, using: str | None = None, budget: Budget | None = None) -> list[Reason]:
    """Return why a job is not running, what it is doing, or how it ended; most important first, never empty.

    Reads by index within half a second, or within an open budget of the same database, else says that it is unknown.
    Raises django.db errors where the database is away.
    """
    alias = using or Job.objects.write_db

    def read(query: Callable[[], list[Reason]]) -> list[Reason] | None:
        return read_within(alias, query, LIMIT) if budget is None else budget.read(query, of=Job._meta.db_table)

    if job.status in (Status.PENDING, Status.SCHEDULED):
        found = read(lambda: waiting(job, alias))
    elif job.status == Status.RUNNING:
        found = read(lambda: _running(job, alias))
    elif job.status in (Status.DONE, Status.DEAD, Status.CANCELLED):
        found = [_ended(job)]
        if job.status == Status.DEAD and job.dedupe_key is not None:
            found += read(lambda: _key(job, alias)) or []
    else:
        found = [Reason("status", _("Its status is %(status)s: no worker claims it.") % _named(job))]
    return found or [Reason("unknown", _("The database did not say why in time. Look again in a moment."))]


def _running(job: Job, alias: str) -> list[Reason]:
    manager = Job.objects.db_manager(alias)
    rows = manager.run_sql(sql.RUNNING_JOB, {"id": job.pk})
    if not rows:
        return [Reason("gone", _("The job is gone."))]
    now, expired, silent, stopping, percent, message = rows[0]
    reasons = _stuck(job, now, expired=bool(expired), stuck=manager.stuck().filter(pk=job.pk).exists())
    reasons.append(_doing(job, now))
    if percent is not None:
        told = {"percent": percent, "message": f": {mask_text(message)}" if message else ""}
        reasons.append(Reason("progress", _("It last reported %(percent)s %%%(message)s.") % told))
    reasons += _holder(job, silent, stopping=bool(stopping))
    if job.lease_until is not None and not expired:
        told = {"span": spoken((job.lease_until - now).total_seconds())}
        lost = silent is None or silent >= silent_after()
        text = _("Its lease holds for another %(span)s: if nobody renews it, maintenance takes the job back then.")
        text = text if lost else _("Its lease holds for another %(span)s, and its worker renews it.")
        reasons.append(Reason("leased", text % told))
    if job.cancel_requested_at is not None:
        text = _("Somebody asked for it to be cancelled at %(time)s.")
        reasons.append(Reason("cancelling", text % {"time": at(job.cancel_requested_at)}))
    return reasons


def _stuck(job: Job, now: datetime, *, expired: bool, stuck: bool) -> list[Reason]:
    if expired and job.lease_until is not None:
        told = {"span": spoken((now - job.lease_until).total_seconds())}
        text = _("It is stuck: its lease ran out %(span)s ago, so its worker is lost. Maintenance takes it back soon.")
        return [Reason("lease_expired", text % told)]
    if stuck:
        seconds, longer = patience()
        told = {"span": spoken(longer.get(job.job_type, seconds))}
        return [Reason("overlong", _("It is stuck: it runs for longer than the %(span)s that it may.") % told)]
    return []


def _doing(job: Job, now: datetime) -> Reason:
    if job.run_started_at is None or (job.claimed_at and job.run_started_at < job.claimed_at):
        since = job.claimed_at or job.updated_at
        text = _(
            "A worker claimed it at %(time)s, %(span)s ago; its start is known with the next renewal of its lease."
        )
        told = {"time": at(since), "span": spoken((now - since).total_seconds())}
        return Reason("claimed", text % told)
    told = {"time": at(job.run_started_at), "span": spoken((now - job.run_started_at).total_seconds())}
    return Reason("running", _("It has run since %(time)s, for %(span)s.") % told)


def _holder(job: Job, silent: float | None, *, stopping: bool) -> list[Reason]:
    told = {"worker": job.worker_id or "-", "span": spoken(silent or 0)}
    if silent is None:
        return [Reason("worker_gone", _("Its worker %(worker)s is not known any more.") % told)]
    if silent >= silent_after():
        return [Reason("worker_silent", _("Its worker %(worker)s was last heard of %(span)s ago.") % told)]
    if stopping:
        return [Reason("worker_stopping", _("Its worker %(worker)s is stopping.") % told)]
    return [Reason("worker", _("Its worker %(worker)s was heard of %(span)s ago.") % told)]


def _ended(job: Job) -> Reason:
    told = {
        **_named(job),
        "time": "-" if job.finished_at is None else at(job.finished_at),
        "outcome": str(job.get_outcome_display() or "-"),
        "attempts": job.attempts,
        "allowed": job.max_attempts,
    }
    if job.status == Status.DONE:
        return Reason("done", _("It is done since %(time)s.") % told)
    if job.status == Status.CANCELLED:
        text = (
            _("It was discarded at %(time)s.")
            if job.outcome == Outcome.DISCARDED
            else _("It was cancelled at %(time)s.")
        )
        return Reason("cancelled", text % told)
    if job.outcome in FATAL_OUTCOMES:
        text = _("It is dead since %(time)s: an attempt that ends like this (%(outcome)s) is not repeated.")
    elif job.attempts >= job.max_attempts:
        text = ngettext(
            "It is dead since %(time)s: its only attempt ended as %(outcome)s.",
            "It is dead since %(time)s: all %(allowed)d attempts are used up, the last one ended as %(outcome)s.",
            job.max_attempts,
        )
    else:
        text = _(
            "It is dead since %(time)s, after %(attempts)d of %(allowed)d attempts: the last one ended as %(outcome)s."
        )
    return Reason("dead", text % told)


def _key(job: Job, alias: str) -> list[Reason]:
    """Name the job that keeps a dead letter from being retried."""
    blockers = dict(Job.objects.db_manager(alias).run_sql(sql.BLOCKED_REDRIVES, {"ids": [job.pk]}))
    blocker = blockers.get(job.pk)
    if blocker is None:
        return []
    return [Reason("key_held", _("It cannot be retried: job #%(id)d holds its key.") % {"id": blocker})]


def _named(job: Job) -> dict[str, Any]:
    return {"status": status_name(job.status)}
