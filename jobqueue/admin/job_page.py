"""What stands on the page of a job below its state: attempts, input and output, relations, logs, what people did."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from jobqueue import operations
from jobqueue.models import Action, Attempt, Job, Order
from jobqueue.ops.limited import Budget
from jobqueue.ops.reasons import why
from jobqueue.ops.related import Related, RelatedJob, related
from jobqueue.states import Status

from .audit_words import action_label
from .badges import status_badge
from .base import LARGEST_ID, job_url
from .diagnosis import live_of, orders_about, state_of
from .folding import parts_of
from .group_rows import group_url
from .hints import hints
from .history import Bar, Step, actions_on, bars, history
from .offers import offers
from .wording import instant, money, size, span

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: For each read of the page, and for all of them together.
EACH: Final = timedelta(milliseconds=500)
ALL: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An attempt as the page shows it."""

    step: Step
    bar: Bar
    claimed: str
    started: str
    waited: str
    late: str
    ran: str
    memory: str
    cpu: str
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What somebody did to the job, or was refused."""

    action: Action
    label: Any
    at: str
    jobs: list[tuple[int, str]]  # of a clone: the other one, with its address


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A job that has to do with this one."""

    job: RelatedJob
    url: str
    badge: SafeString
    created: str


def page_of(job: Any, rows: QuerySet[Any], *, allowed: Callable[[str], bool], auditor: bool) -> dict[str, Any]:
    """Return what the page of a job shows.

    `rows` are the jobs that the user may see, `allowed` tells of each action whether they may take it on this one, and
    `auditor` whether they may see the audit.

    All is read in one transaction within limits of time: what takes longer is None, and the page says so.
    """
    alias, asks = Job.objects.write_db, allowed("ask_stack")
    budget = Budget(alias, each=EACH, end=time.monotonic() + ALL.total_seconds())
    with budget.open():
        reasons = why(job, using=alias, budget=budget)
        past = budget.read(lambda: history(job, using=alias), of=Attempt._meta.db_table)
        deeds = budget.read(
            lambda: [_deed(action, job) for action in actions_on(job.pk, using=alias, refused=auditor)],
            of=Action._meta.db_table,
        )
        kin = budget.read(lambda: related(job, rows.using(alias)), of=Job._meta.db_table)
        orders = budget.read(lambda: orders_about(job), of=Order._meta.db_table) if asks else None
    steps, more = past or ([], False)
    return {
        "state": state_of(job, reasons),
        "offers": offers(job, reasons, allowed),
        "can_unmask": allowed("unmask"),
        "attempts": None if past is None else [_row(*pair) for pair in zip(steps, bars(steps), strict=True)],
        "more_attempts": more,
        "parts": parts_of(job.pk, job.preview),
        "deeds": deeds,
        "auditor": auditor,
        "audit_url": f"{reverse('admin:jobqueue_action_changelist')}?{urlencode({'q': job.pk})}" if auditor else "",
        "kin": _kin(kin),
        "group_url": _group_url(job),
        "hints": hints(job),
        **live_of(job, orders or [], asks=asks),
    }


def _row(step: Step, bar: Bar) -> Row:
    return Row(
        step=step,
        bar=bar,
        claimed=instant(step.claimed_at),
        started=instant(step.started_at),
        waited=span(step.wait_time),
        late=span(step.late) if step.late is not None else "",
        ran=span(step.run_time),
        memory=size(step.peak_memory_bytes),
        cpu=span(step.cpu_seconds),
        cost=money(step.cost),
    )


def _deed(action: Any, job: Job) -> Deed:
    told = action.cloned if isinstance(action.cloned, dict) else {}
    others = [told.get("of"), told.get("clone")]
    jobs = [(pk, job_url(pk)) for pk in others if isinstance(pk, int) and 0 < pk <= LARGEST_ID and pk != job.pk]
    return Deed(action=action, label=action_label(action.action), at=instant(action.at), jobs=jobs)


def _kin(found: Related | None) -> dict[str, list[Kin]] | None:
    """Return the related jobs of each kind; None where the database did not tell in time."""
    if found is None:
        return None
    return {"same_key": [_relative(one) for one in found.same_key], "near": [_relative(one) for one in found.near]}


def _relative(one: RelatedJob) -> Kin:
    return Kin(job=one, url=job_url(one.job_id), badge=status_badge(one.status), created=instant(one.created_at))


def _group_url(job: Job) -> str:
    """Return the address of the group of dead letters that a job belongs to, "" where it is none."""
    if job.status != Status.DEAD:
        return ""
    return group_url(operations.Group(job.fingerprint or "", job.job_type))
