"""Groups of dead letters: what is counted, what is called a trend, and where counting ends."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue.models import Job
from jobqueue.ops.dead_groups import DeadGroup, dead_groups
from jobqueue.states import Status
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

HOUR = 3600


def die(*hours_ago: float, **fields: Any) -> list[Job]:
    """Make a dead letter for each of these times."""
    return [JobFactory.create(status=Status.DEAD, finished_at=ago(hours * HOUR), **fields) for hours in hours_ago]


def only_group() -> DeadGroup:
    """Return the one group that there is."""
    (group,) = dead_groups(Job.objects.dead()).groups
    return group


def test_a_group_is_one_fingerprint_of_one_type() -> None:
    die(1, 1, 1, fingerprint="f1", job_type="a")
    die(1, fingerprint="f1", job_type="b")
    die(1, 1, fingerprint=None, job_type="a")

    found = [(group.fingerprint, group.job_type, group.jobs) for group in dead_groups(Job.objects.dead()).groups]

    assert found == [("f1", "a", 3), (None, "a", 2), ("f1", "b", 1)]


def test_windows_count_what_died_within_them() -> None:
    jobs = die(0.5, 0.9, 1.1, 23, 25, 160, 200)

    group = only_group()

    assert group.within == {"1h": 2, "24h": 4, "7d": 6}
    assert group.jobs == 7
    assert (group.first_at, group.last_at) == (jobs[-1].finished_at, jobs[0].finished_at)
    assert group.newest == jobs[-1].pk


@pytest.mark.parametrize(
    ("hours", "trend"),
    [
        ((0.5, 0.6), "new"),
        ((0.5, 2), "rising"),
        ((0.5, *range(2, 24)), "steady"),
        ((2, 3), "falling"),
        ((0.5, *([5] * 60)), "falling"),
        ((25, 30), "quiet"),
    ],
)
def test_the_trend_compares_this_hour_with_the_day(hours: tuple[float, ...], trend: str) -> None:
    die(*hours)

    assert only_group().trend == trend


def test_a_message_is_normalised_and_masked() -> None:
    text = "cannot open /srv/files/7.pdf after 12 tries, password=hunter2"
    JobFactory.create(status=Status.DEAD, error_class="OSError", last_error=text)

    group = only_group()

    assert (group.error_class, group.message) == ("OSError", "cannot open <path> after <n> tries, password=***")


def test_counts_that_reach_the_bound_say_what_they_leave_out() -> None:
    die(0.2, 0.3, 2, 30, 50)

    cut = dead_groups(Job.objects.dead(), reach=3)
    whole = dead_groups(Job.objects.dead(), reach=6)

    assert [cut.exact(timedelta(hours=hours)) for hours in (1, 24)] == [True, False]
    assert not cut.exact()
    assert cut.more
    assert cut.groups[0].jobs == 3
    assert whole.exact()
    assert not whole.more


def test_a_flood_of_others_makes_no_old_error_new() -> None:
    """Twenty hours ago the same error killed, too, but the flood of this hour leaves that out of reach."""
    die(0.2, 0.3, 20, fingerprint="old")
    die(*[0.1] * 4, fingerprint="flood")

    cut = dead_groups(Job.objects.dead(), reach=6)
    whole = dead_groups(Job.objects.dead(), reach=8)

    assert [(group.fingerprint, group.jobs, group.trend) for group in cut.groups] == [
        ("flood", 4, "unknown"),
        ("old", 2, "unknown"),
    ]
    assert [(group.fingerprint, group.trend) for group in whole.groups] == [("flood", "new"), ("old", "rising")]


def test_what_may_have_died_before_the_day_is_not_new() -> None:
    die(0.2, 0.3, fingerprint="old")
    die(30, 31, fingerprint="other")
    die(40, fingerprint="old")

    old, other = dead_groups(Job.objects.dead(), reach=4).groups

    assert (old.exact(timedelta(hours=24)), old.exact()) == (True, False)
    assert (old.trend, other.trend) == ("rising", "quiet")


def test_the_largest_groups_are_shown() -> None:
    for number in range(4):
        die(*[1] * (number + 1), fingerprint=f"f{number}")

    found = dead_groups(Job.objects.dead(), shown=2)

    assert [group.jobs for group in found.groups] == [4, 3]
    assert found.more


def test_only_the_set_is_grouped_in_three_statements() -> None:
    die(1, 1, queue="a", fingerprint="f1")
    die(1, queue="b", fingerprint="f2")

    with CaptureQueriesContext(connection) as queries:
        found = dead_groups(Job.objects.dead().filter(queue="b"))

    assert [group.fingerprint for group in found.groups] == ["f2"]
    assert len(queries) == 3  # the groups, their samples, the notes on them


def test_no_dead_letters_make_no_groups() -> None:
    JobFactory.create(status=Status.CANCELLED)

    found = dead_groups(Job.objects.dead())

    assert (found.groups, found.more, found.exact()) == ((), False, True)
