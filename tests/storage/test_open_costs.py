"""What a running attempt has cost so far stands in its job's row, and is charged once: by its settle or by a reaper."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from pytest_django import Settings

from jobqueue import operations, sql
from jobqueue.managers import CostLine, Done, Ending, Release, leasing, settling
from jobqueue.models import Attempt, Cost, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
run = Job.objects.run_sql
LINES = (CostLine("llm", "USD", Decimal("0.25")), CostLine("ocr", "USD", Decimal("0.00000012")))
SPENT = Decimal("0.25000012")


def write(job: Job, *lines: CostLine) -> set[int]:
    return leasing.write_costs(run, worker_id="worker-1", costs={(job.pk, job.lease_epoch): lines})


def charged() -> list[tuple[Any, ...]]:
    return list(Cost.objects.order_by("id").values_list("queue", "job_type", "owner", "component", "unit", "amount"))


def test_the_latest_lines_of_a_running_job_are_kept(leased: MakeJob) -> None:
    job, other = leased(), leased(worker_id="worker-2")

    write(job, LINES[0])
    assert write(job, *LINES) == {job.pk}
    assert write(other, *LINES) == set()

    assert Job.objects.get(pk=job.pk).open_costs == [["llm", "USD", "0.25000000"], ["ocr", "USD", "0.00000012"]]
    assert Job.objects.get(pk=other.pk).open_costs is None
    assert not Cost.objects.exists()


def reap(job: Job) -> None:
    assert job.pk in Job.objects.reap()


def release_stuck(job: Job) -> None:
    assert operations.release([job.pk], actor="command").changed == [job.pk]


@pytest.mark.parametrize("take_back", [reap, release_stuck])
def test_a_lost_attempt_is_charged_what_was_written_of_it(take_back: Callable[[Job], None], leased: MakeJob) -> None:
    """Case C122: in the job, in its attempt and in the sums."""
    job = leased(owner="lena", expired=True, cost_total=Decimal(1), cost_last=Decimal(1))
    write(job, *LINES)

    take_back(job)

    after, attempt = Job.objects.get(pk=job.pk), Attempt.objects.get(job=job)
    assert (after.cost_total, after.cost_last, after.open_costs) == (1 + SPENT, SPENT, None)
    assert attempt.cost == SPENT
    assert charged() == [
        ("default", "probe.ok", "lena", "llm", "USD", Decimal("0.25")),
        ("default", "probe.ok", "lena", "ocr", "USD", Decimal("0.00000012")),
    ]


@pytest.mark.parametrize("take_back", [reap, release_stuck])
def test_what_was_charged_once_is_not_charged_again(take_back: Callable[[Job], None], leased: MakeJob) -> None:
    """Guard: open_costs = NULL. The next attempt is lost before it has cost anything."""
    job = leased(expired=True)
    write(job, *LINES)
    take_back(job)
    Job.objects.claim(worker_id="worker-1")
    Job.objects.update(lease_until=job.lease_until)

    take_back(job)

    after = Job.objects.get(pk=job.pk)
    assert (after.cost_total, after.cost_last) == (SPENT, 0)
    assert Cost.objects.aggregate(total=Sum("amount"))["total"] == SPENT


@pytest.mark.parametrize("take_back", [reap, release_stuck])
def test_a_lost_attempt_without_costs_is_charged_nothing(take_back: Callable[[Job], None], leased: MakeJob) -> None:
    job = leased(expired=True, cost_total=Decimal(1), cost_last=Decimal(1))

    take_back(job)

    after = Job.objects.get(pk=job.pk)
    assert (after.cost_total, after.cost_last, Attempt.objects.get().cost) == (1, 0, 0)
    assert not Cost.objects.exists()


@pytest.mark.parametrize("take_back", [reap, release_stuck])
def test_the_cost_of_a_job_is_in_the_first_unit_only(
    take_back: Callable[[Job], None], leased: MakeJob, settings: Settings
) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "COST_UNITS": ("EUR", "USD")}
    job = leased(expired=True)
    write(job, *LINES, CostLine("llm", "EUR", Decimal("0.75")))

    take_back(job)

    assert Job.objects.get(pk=job.pk).cost_total == Decimal("0.75")
    assert sorted(row[-2:] for row in charged()) == [
        ("EUR", Decimal("0.75")),
        ("USD", Decimal("0.00000012")),
        ("USD", Decimal("0.25")),
    ]


@pytest.mark.parametrize("take_back", [reap, release_stuck])
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '"text"',
        "7",
        "[]",
        '[1, "two", null, {"a": 1}]',
        '[[null, "USD", "1"], ["x", null, "1"], ["x", "USD", null], ["x", "USD", "NaN"], ["x", "USD", "1e5"]]',
        '[["x", "USD", "1234567890123"], ["x", "USD", "many"], ["x"]]',
    ],
)
def test_a_row_written_by_hand_is_taken_back_all_the_same(
    text: str, take_back: Callable[[Job], None], leased: MakeJob
) -> None:
    """What is no amount costs nothing, and holds up no job."""
    job = leased(expired=True)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET open_costs = %s::jsonb", [text])

    take_back(job)

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.cost_total, after.open_costs) == (Status.PENDING, 0, None)
    assert charged() == []


@pytest.mark.parametrize("take_back", [reap, release_stuck])
def test_a_sum_beyond_the_column_stops_no_reaper(take_back: Callable[[Job], None], leased: MakeJob) -> None:
    job = leased(expired=True)
    write(job, *[CostLine(f"c{number}", "USD", Decimal("9e11")) for number in range(3)])

    take_back(job)

    assert Job.objects.get(pk=job.pk).cost_total == Decimal("999999999999.99999999")
    assert Cost.objects.aggregate(total=Sum("amount"))["total"] == Decimal("2.7e12")


def complete_inside(job: Job) -> Any:
    params = {"result": "{}", "run_seconds": 0.0, "cpu_seconds": None, "cost": "1", "cost_lines": "[]"}
    return run(sql.COMPLETE_JOB, {**job.fence._asdict(), **params})


ENDS: dict[str, Callable[[Job], Any]] = {
    "done": lambda job: settling.settle_done(run, worker_id="worker-1", jobs=[Done(job.pk, 1, costs=LINES)]),
    "failed": lambda job: settling.settle_ended(
        run, worker_id="worker-1", endings=[Ending(job.pk, 1, Outcome.FAILED, costs=LINES)]
    ),
    "snoozed": lambda job: leasing.release(run, worker_id="worker-1", releases=[Release(job.pk, 1, costs=LINES)]),
    "completed inside": complete_inside,
}


@pytest.mark.parametrize("end", ENDS)
def test_an_attempt_that_tells_its_own_end_is_charged_by_that(end: str, leased: MakeJob) -> None:
    """What stood in the row is forgotten: its settle brings all of it, and nobody charges it a second time."""
    job = leased()
    write(job, CostLine("llm", "USD", Decimal("0.10")))

    assert ENDS[end](job)

    after = Job.objects.get(pk=job.pk)
    assert after.open_costs is None
    assert after.cost_total == (1 if end == "completed inside" else SPENT)
