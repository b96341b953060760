"""What the pages say, against the rows themselves: added up here one by one, as plainly as can be."""

import random
import re
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobqueue.admin.wording import span
from jobqueue.conf import get_settings
from jobqueue.models import Cost, Job, Stat
from jobqueue.ops import overview as figures
from jobqueue.ops.attempts import FAILURES
from jobqueue.ops.trends import SCALES, Window, starts_of
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory, StatFactory, ago

from .conftest import DEAD

pytestmark = pytest.mark.django_db

OVERVIEW = reverse("admin:app_list", args=["jobqueue"])
QUEUES = ("mail", "index", "slow lane")
STATUSES = [status for status in Status if status is not Status.WAITING]
FINISHED = (Status.DONE, Status.DEAD, Status.CANCELLED)
DAY = 86_400


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing unknown, however busy the machine."""
    for name in ("EACH", "TOTAL"):
        monkeypatch.setattr(figures, name, timedelta(minutes=1))


def clock() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def population(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(120):
        status = chance.choice(STATUSES)
        fields: dict[str, Any] = {
            "queue": chance.choice(QUEUES),
            "job_type": chance.choice(["a.one", "b.two"]),
            "priority": chance.choice([1, 100]),
        }
        if status is Status.PENDING:
            fields["run_after"] = ago(chance.uniform(0, 5000))
        if status is Status.RUNNING:
            fields["lease_until"] = ago(chance.uniform(-500, 500))
            fields["claimed_at"] = fields["run_started_at"] = ago(chance.uniform(0, 2 * DAY))
        if status in FINISHED:
            fields["finished_at"] = ago(chance.uniform(0, 12 * DAY))
        if status is Status.DEAD:
            fields["fingerprint"] = chance.choice(["f1", "f2", None])
        JobFactory.create(status=status, **fields)
    for _ in range(150):
        outcome = chance.choice([Outcome.DONE, Outcome.FAILED, Outcome.CANCELLED, Outcome.CRASHED])
        jobs = chance.randrange(1, 40)
        folded = chance.random() < 0.5
        at = clock() - timedelta(seconds=chance.expovariate(1 / 20_000))
        if folded:  # as fold_stats.sql puts them
            at = at.replace(second=0, microsecond=0)
        StatFactory.create(
            at=at,
            span_seconds=60 if folded else 0,
            queue=f"queue-{chance.randrange(10**9)}",
            outcome=outcome,
            jobs=jobs,
            dead=chance.randrange(jobs + 1) if outcome in FAILURES else 0,
        )
        CostFactory.create(
            at=clock() - timedelta(seconds=chance.uniform(0, 2 * DAY)),
            amount=Decimal(chance.randrange(1, 10**9)) / 10**8,
            unit=chance.choice(["USD", "EUR"]),
        )


def parts_of(client: Client, **query: str) -> dict[str, dict[str, Any]]:
    answer = client.get(OVERVIEW, query)
    return {part["name"]: part for part in answer.context["overview"]["parts"]}


def number(html: Any) -> str:
    return re.sub("<[^>]+>", "", str(html))


def is_stuck(job: Job, now: datetime) -> bool:
    late = now - timedelta(seconds=get_settings().STUCK_AFTER_SECONDS)
    return job.status == Status.RUNNING and (job.lease_until < now or job.run_started_at < late)


@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "Asia/Kolkata")])
def test_the_overview_says_what_the_rows_say(operator: Client, seed: int, zone: str, settings: Any) -> None:
    settings.TIME_ZONE = zone
    population(seed)

    parts, now = parts_of(operator), clock()

    jobs = list(Job.objects.all())
    tiles = {tile["label"]: number(tile["value"]) for tile in parts["status"]["tiles"]}
    counted = Counter(Status(job.status) for job in jobs)
    for status in STATUSES:
        assert tiles[str(status.label).capitalize()] == str(counted[status]), status
    assert tiles["Stuck jobs"] == str(sum(is_stuck(job, now) for job in jobs))
    waits = {
        queue: [now - job.run_after for job in jobs if job.status == Status.PENDING and job.queue == queue]
        for queue in QUEUES
    }
    assert tiles["Longest wait"] == span(round(max(max(waits[queue]) for queue in QUEUES).total_seconds()))
    worst = sorted(QUEUES, key=lambda queue: -max(waits[queue]))
    assert [row["queue"] for row in parts["queues"]["rows"]] == worst
    assert [row["depth"] for row in parts["queues"]["rows"]] == [str(len(waits[queue])) for queue in worst]
    midnight = now.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    spent: Counter[str] = Counter()
    for cost in Cost.objects.filter(at__gte=midnight):
        spent[cost.unit] += cost.amount  # type: ignore[assignment]
    assert {unit: Decimal(amount) for unit, amount in parts["costs"]["today"]} == dict(spent)


@pytest.mark.parametrize("window", list(SCALES))
def test_the_charts_say_what_the_rows_say(operator: Client, window: Window) -> None:
    population(3)

    part, now = parts_of(operator, window=window)["trend"], clock()

    starts = starts_of(window, now)
    rows = list(Stat.objects.filter(at__gte=starts[0]))
    total = sum(row.jobs for row in rows)
    failed = sum(row.jobs for row in rows if row.outcome in FAILURES)
    done = sum(row.jobs for row in rows if row.outcome == Outcome.DONE)
    sums = dict(part["sums"])
    assert sums["Attempts ended"] == str(total)
    assert sums["Failed"] == f"{failed} ({failed / (done + failed):.1%})"
    assert sums["Became dead letters"] == str(sum(row.dead for row in rows))
    ended = part["figures"][0]
    for at, following, (_begins, cells) in zip(starts, [*starts[1:], now], reversed(ended.rows), strict=True):
        here = [row for row in rows if at <= row.at < following]
        assert cells[3] == str(sum(row.jobs for row in here)), at
    assert sum(int(cells[3]) for _begins, cells in ended.rows) == total


def test_groups_say_what_the_rows_say(operator: Client) -> None:
    population(4)

    groups, now = operator.get(reverse(DEAD)).context["groups"], clock()

    dead = [job for job in Job.objects.all() if job.status == Status.DEAD]
    assert sum(row.jobs for row in groups) == len(dead)
    for row in groups:
        mine = [job for job in dead if (job.fingerprint, job.job_type) == (row.group.fingerprint, row.group.job_type)]
        ages = [now - job.finished_at for job in mine]
        limits = (timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta.max)
        assert row.counts == [str(sum(age < limit for age in ages)) for limit in limits]
        assert row.group.newest == max(job.pk for job in mine)
