"""What each part of the overview says, in words and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobqueue.models import Incident, Job, StuckJob
from jobqueue.ops.counts import COUNT_CAP
from jobqueue.ops.dead_groups import DeadGroup
from jobqueue.ops.overview import FIRING, STUCK, Overview
from jobqueue.ops.queue_figures import QueueFigures
from jobqueue.ops.worker_figures import WorkerFigures
from jobqueue.states import Status

from .badges import KINDS, Kind, badge
from .costs import budget_row
from .group_rows import GroupRow, counts_of
from .trend_charts import figures_of, releases_of, share
from .wording import EMPTY, brief, money, shortened, span

if TYPE_CHECKING:
    from .overview import Seen

UNKNOWN: Any = gettext_lazy("unknown")
SHOWN: Final = 10
GROUPS: Final = 5
TEXT_CHARACTERS: Final = 200
#: In the order of a job's life, with the tile of what is wrong after the status that it belongs to.
LISTED: Final = (Status.SCHEDULED, Status.PENDING, Status.RUNNING, Status.DEAD, Status.DONE, Status.CANCELLED)


def status(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return how many jobs there are of each status, and what is wrong among them."""
    jobs = _list("job", seen)
    tiles = []
    for each in LISTED:
        number = None if found.counts is None else found.counts.get(each, 0)
        kind = KINDS[each] if number else "ok" if each is Status.DEAD else "wait"
        url = _list("deadletter", seen) if each is Status.DEAD else f"{jobs}?status__exact={each.value}"
        tiles.append(_tile(capfirst(str(each.label)), _count(number), kind, url))
        if each is Status.PENDING and not seen.narrowed:
            tiles.append(_tile(_("Longest wait"), _oldest(found), "wait", f"{jobs}?status__exact={each.value}"))
        if each is Status.RUNNING and (found.counts is None or STUCK in found.counts):
            stuck = None if found.counts is None else found.counts[STUCK]
            kind = "warn" if stuck else "ok"
            tiles.append(
                _tile(capfirst(str(StuckJob._meta.verbose_name_plural)), _count(stuck), kind, _list("stuckjob", seen))
            )
    return {"tiles": tiles, "empty": found.counts is not None and not any(found.counts.values())}


def alerts(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return the incidents that fire, the newest first."""
    firing = found.firing or ()
    return {
        "unknown": found.firing is None,
        "firing": [_incident(one, found, seen) for one in firing[:FIRING]],
        "more": len(firing) > FIRING,
        # Without a worker nobody tells that something is over, nor that something else has begun.
        "late": found.look is not None and found.look.late,
        "looked_at": found.look and found.look.age and brief(found.look.age),
        "nobody": found.workers is not None and not any(one.alive for one in found.workers),
        "list_url": _list("incident", seen),
    }


def trend(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return the charts of the chosen time, their sums, and the releases that they mark."""
    read, zone = found.trend, timezone.get_default_timezone_name()
    if read is None or read.points is None:
        return {"figures": None}
    whole = read.whole
    sums = [
        (_("Attempts ended"), f"{whole.jobs}"),
        (_("Failed"), f"{whole.failed} ({share(whole.failure_rate)})"),
        (_("Became dead letters"), f"{whole.dead}"),
    ]
    if read.timed:
        sums.append((_("Wait p50 / p95"), f"{brief(whole.wait_p50)} / {brief(whole.wait_p95)}"))
    figures, releases = figures_of(read, zone), releases_of(read)
    return {"figures": figures, "sums": sums, "releases": releases, "timed": read.timed, "chart_zone": zone}


def queues(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return the queues that wait longest."""
    rows = found.queues or ()
    return {
        "unknown": found.queues is None,
        "rows": [_queue(one, seen) for one in rows[:SHOWN]],
        "more": len(rows) > SHOWN,
        "list_url": _list("queue", seen),
    }


def groups(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return the largest groups of dead letters that nobody muted."""
    read = found.groups
    heard = [one for one in read.groups if not one.muted] if read else []
    muted = len(read.groups) - len(heard) if read else 0
    return {
        "unknown": read is None,
        "rows": [_group(one) for one in heard[:GROUPS]],
        "muted": ngettext("%(groups)d group is muted.", "%(groups)d groups are muted.", muted) % {"groups": muted}
        if muted
        else "",
        "all_muted": bool(muted and not heard),
        "more": len(heard) > GROUPS or bool(read and read.more),
        "list_url": _list("deadletter", seen),
    }


def workers(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return the workers, the silent ones first, and how busy all are."""
    rows = found.workers or ()
    living = [one for one in rows if one.alive]
    ordered = sorted(rows, key=lambda one: (one.alive, not one.stopping, one.name, one.worker_id))
    return {
        "unknown": found.workers is None,
        "sums": [
            (_("Alive"), f"{len(living)}"),
            (_("Silent"), f"{len(rows) - len(living)}"),
            (_("Slots busy"), f"{sum(one.busy for one in living)} / {sum(one.slots for one in living)}"),
        ],
        "rows": [_worker(one) for one in ordered[:SHOWN]],
        "more": len(rows) > SHOWN,
        "none": not living,
        "list_url": _list("worker", seen),
    }


def costs(found: Overview, seen: Seen) -> dict[str, Any]:
    """Return what today cost, and how far the budgets are spent."""
    return {
        "unknown": found.today is None,
        "today": [(unit, money(amount)) for unit, amount in sorted((found.today or {}).items())],
        "budgets": None if found.budgets is None else [budget_row(one) for one in found.budgets],
        "list_url": _list("cost", seen),
    }


def _list(model: str, seen: Seen) -> str:
    return reverse(f"admin:jobqueue_{model}_changelist", current_app=seen.site.name)


def _tile(label: str, value: Any, kind: Kind, url: str) -> dict[str, Any]:
    return {"label": label, "value": badge(kind, value), "url": url}


def _count(number: int | None) -> Any:
    if number is None:
        return UNKNOWN
    return f"≥ {COUNT_CAP}" if number > COUNT_CAP else f"{number}"


def _oldest(found: Overview) -> Any:
    return UNKNOWN if found.oldest_sec is None else span(round(found.oldest_sec))


def _incident(one: Incident, found: Overview, seen: Seen) -> dict[str, Any]:
    since = (
        None if found.at is None or one.fired_at is None else max(0, round((found.at - one.fired_at).total_seconds()))
    )
    return {
        "rule": one.rule,
        "subject": one.subject,
        "text": shortened(one.text, TEXT_CHARACTERS),
        "since": span(since),
        "url": reverse("admin:jobqueue_incident_change", args=[one.pk], current_app=seen.site.name),
    }


def _queue(one: QueueFigures, seen: Seen) -> dict[str, Any]:
    jobs = seen.may(Job)
    unserved = one.workers == 0 and bool(one.depth)
    return {
        "queue": one.queue,
        "url": f"{_list('job', seen)}?{urlencode({'queue': one.queue})}" if jobs else "",
        "state": badge("warn", _("paused")) if one.paused else badge("ok", _("open")),
        "depth": UNKNOWN if one.depth is None else f"≥ {one.depth}" if one.depth_capped else f"{one.depth}",
        "oldest": UNKNOWN if one.oldest_sec is None else span(round(one.oldest_sec)) if one.depth else EMPTY,
        "workers": badge("bad", _("none")) if unserved else UNKNOWN if one.workers is None else f"{one.workers}",
    }


def _group(one: DeadGroup) -> GroupRow:
    counts = counts_of(one)
    return GroupRow(group=one, counts=[*counts[:2], counts[-1]])  # 1 hour, 24 hours, all


def _worker(one: WorkerFigures) -> dict[str, Any]:
    if not one.alive:
        state = badge("bad", _("silent"))
    elif one.stopping:
        state = badge("off", _("stopping"))
    else:
        state = badge("busy", _("working")) if one.busy else badge("ok", _("idle"))
    return {
        "name": one.name,
        "host": one.host,
        "state": state,
        "load": f"{one.busy} / {one.slots}",
        "heard": _("%(age)s ago") % {"age": span(round(one.heartbeat_age_sec))},
        "release": one.release or one.version or EMPTY,
    }
