"""How a worker is put on its pages: its state in words, its figures, what it runs, what it was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobqueue import operations
from jobqueue.models import Order
from jobqueue.ops.worker_figures import WorkerFigures
from jobqueue.ops.worker_table import AskedOf, RunningJob, WorkerTable

from .badges import badge
from .base import job_url
from .wording import EMPTY, instant, size, span

#: Running jobs that are named in the list; all of them have a list of their own.
NAMED: Final = 5
#: A clock that is further off than this makes reports of the host misleading.
SKEW_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker as its pages show it."""

    figures: WorkerFigures
    state: SafeString
    heard: str
    asked: str  # what it was told, and whether it has answered; "" for nothing
    unanswered: bool
    serves: str
    types: str
    memory: str
    rate: str
    uptime: str
    started: str
    claimed: str
    skew: str
    skewed: bool
    clock: str  # the same in words
    listening: str
    gauges: list[tuple[str, str]]
    runs: list[tuple[str, RunningJob, str]]  # address, job, for how long
    more_runs: str
    runs_url: str
    url: str
    drain_url: str
    stop_url: str


def shown(one: WorkerFigures, table: WorkerTable, *, sees_jobs: bool) -> WorkerRow:
    """Return a worker as the pages show it."""
    runs = table.runs.get(one.worker_id, [])
    asked = table.orders.get(one.worker_id)
    pages = {name: reverse(f"admin:jobqueue_worker_{name}", args=[quote(one.worker_id)]) for name in PAGES}
    skew = one.clock_skew_sec
    return WorkerRow(
        figures=one,
        state=state_of(one),
        heard=_("%(age)s ago") % {"age": span(round(one.heartbeat_age_sec))},
        asked="" if asked is None else asked_words(asked),
        unanswered=asked is not None and _is_silent(asked),
        serves=", ".join(one.queues),
        types=", ".join(one.job_types) or _("every type"),
        memory=EMPTY if one.memory_bytes is None else size(one.memory_bytes),
        rate=EMPTY if one.jobs_per_sec is None else f"{one.jobs_per_sec:{'.0f' if one.jobs_per_sec >= 100 else '.3g'}}",
        uptime=span(round(one.uptime_sec)),
        started=instant(one.started_at),
        claimed=EMPTY if one.claim_age_sec is None else _("%(age)s ago") % {"age": span(round(one.claim_age_sec))},
        skew=EMPTY if skew is None else span(skew),
        skewed=_is_skewed(skew),
        clock=clock_words(skew),
        listening=EMPTY if one.listening is None else _("yes") if one.listening else _("no: it polls"),
        gauges=[gauge_words(gauge) for gauge in one.gauges],
        runs=[(job_url(run.id), run, span(round(run.seconds))) for run in runs[:NAMED]],
        more_runs=_more(len(runs) - NAMED, capped=table.runs_capped),
        runs_url=_runs_url(one.worker_id) if sees_jobs else "",
        url=pages["change"],
        drain_url=pages["drain"],
        stop_url=pages["stop"],
    )


PAGES: Final = ("change", "drain", "stop")


def state_of(one: WorkerFigures) -> SafeString:
    """Return how it stands, as a badge."""
    if not one.alive:
        return badge("bad", _("silent"))
    if one.stopping:
        return badge("warn", _("stopping"))
    return badge("busy", _("working")) if one.busy else badge("ok", _("idle"))


def asked_words(asked: AskedOf) -> str:
    """Return who told it to end and how long ago, and whether it has heard."""
    told = {"who": asked.by, "age": span(round(asked.seconds))}
    drain = asked.kind == Order.Kind.DRAIN
    if asked.answered:
        return (_("%(who)s had it drained %(age)s ago") if drain else _("%(who)s had it stopped %(age)s ago")) % told
    if _is_silent(asked):
        if drain:
            return _("%(who)s told it to drain %(age)s ago: it has not answered") % told
        return _("%(who)s told it to stop %(age)s ago: it has not answered") % told
    return (_("%(who)s tells it to drain…") if drain else _("%(who)s tells it to stop…")) % told


def _is_silent(asked: AskedOf) -> bool:
    return not asked.answered and asked.seconds > operations.SILENT_AFTER.total_seconds()


def _is_skewed(skew: float | None) -> bool:
    return skew is not None and abs(skew) >= SKEW_SECONDS


def clock_words(skew: float | None) -> str:
    """Return how its host's clock stands to the database's; None is one that was not compared yet."""
    if skew is None:
        return _("clock not compared yet")
    if not _is_skewed(skew):
        return _("clock right")
    return (_("clock ahead by %(time)s") if skew > 0 else _("clock behind by %(time)s")) % {"time": span(abs(skew))}


def gauge_words(gauge: Any) -> tuple[str, str]:
    """Return the name of a gauge with its labels, and its value; both are what a handler has reported."""
    labels = gauge.get("labels")
    told = ", ".join(f"{name}={value}" for name, value in labels.items()) if isinstance(labels, dict) else ""
    name, value = str(gauge.get("name", "")), gauge.get("value")
    shown_value = f"{value:g}" if isinstance(value, int | float) else str(value)
    return (f"{name} ({told})" if told else name), shown_value


def _more(jobs: int, *, capped: bool) -> str:
    if capped:  # which of a thousand and more running jobs are its own was not looked for further
        return _("and perhaps more")
    return ngettext("and %d more", "and %d more", jobs) % jobs if jobs > 0 else ""


def _runs_url(worker_id: str) -> str:
    query = {
        "status__exact": 2,
        "q": f'worker:"{worker_id}"' if any(c in worker_id for c in ' "') else f"worker:{worker_id}",
    }
    return f"{reverse('admin:jobqueue_job_changelist')}?{urlencode(query)}"
