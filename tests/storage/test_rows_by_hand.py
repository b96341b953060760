"""Rows that somebody wrote by SQL, with what no verb would write: none of them fails a statement for all the others."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.exceptions import InvalidTransition
from jobqueue.maintenance.promote import Promote
from jobqueue.maintenance.reap import Reap
from jobqueue.managers import CostLine, Done, counting, moving
from jobqueue.managers.sessions import Session
from jobqueue.managers.settling import settle_done
from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.worker.claims import Claims
from tests.factories import ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
SMALLEST, LARGEST, LARGEST_BIG = -(2**15), 2**15 - 1, 2**63 - 1
FAR_TIMES = ["infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "9999-12-31 23:59:59+00"]
COLUMNS = (
    *("run_after", "created_at", "updated_at", "claimed_at", "run_started_at", "first_started_at", "finished_at"),
    *("cancel_requested_at", "unknown_since", "lease_until"),
)


def write(job: Job, **columns: Any) -> None:
    """Write columns of a row past everything."""
    assignments = ", ".join(f"{name} = %s" for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobqueue_job SET {assignments} WHERE id = %s", [*columns.values(), job.pk])


@pytest.mark.parametrize(
    "columns",
    [
        {"attempts": LARGEST},
        {"attempts": SMALLEST},
        {"lease_epoch": LARGEST_BIG},
        {"lease_epoch": -LARGEST_BIG - 1},
        {"priority": SMALLEST},
        {"priority": LARGEST},
        *({name: time} for time in FAR_TIMES for name in ("run_after", "unknown_since", "created_at")),
    ],
    ids=str,
)
def test_a_claim_takes_every_row_of_its_queue(columns: dict[str, Any], make_job: MakeJob) -> None:
    """Guard: the bounds in claim_jobs. One number that overflows would fail every claim of the queue, for ever."""
    odd, plain = make_job(), make_job()
    write(odd, **columns)

    claimed = {job.pk: job for job in Job.objects.claim(5, worker_id="w")}

    assert set(claimed) == {odd.pk, plain.pk}
    assert SMALLEST <= claimed[odd.pk].attempts <= LARGEST
    assert claimed[odd.pk].lease_epoch != columns.get("lease_epoch")


@pytest.mark.parametrize("time", FAR_TIMES)
def test_a_settle_counts_the_wait_of_every_row(time: str, leased: MakeJob, end: Any, quiet: None) -> None:
    """Guard: the bounds of wait_seconds. A wait without end would spoil the sums of statistics for good."""
    done, failed = leased(), leased(attempts=1)
    for job in (done, failed):
        write(job, run_after=time)

    assert settle_done(Job.objects.run_sql, worker_id="worker-1", jobs=[Done(done.pk, 1)]) == {done.pk: Status.DONE}
    assert end(failed, step="dead") == Status.DEAD

    waits = list(Stat.objects.values_list("wait_seconds", flat=True))
    assert all(0 <= wait < 1e11 for wait in waits)


@pytest.mark.parametrize("time", FAR_TIMES)
def test_every_time_can_be_read(time: str, make_job: MakeJob, make_attempt: Callable[..., Attempt]) -> None:
    job, attempt = make_job(status=Status.RUNNING), make_attempt()
    write(job, **dict.fromkeys(COLUMNS, time))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_attempt SET claimed_at = %s, started_at = %s, finished_at = %s", [time] * 3)

    read = Job.objects.get(pk=job.pk)

    assert {getattr(read, name) for name in COLUMNS} == {read.run_after}
    assert read.run_after.year in (1, 9999)
    assert Attempt.objects.get(pk=attempt.pk).finished_at == read.run_after
    assert list(Job.objects.filter(pk=job.pk).values_list("created_at", flat=True)) == [read.run_after]


def test_a_time_that_is_not_there_stays_none(make_job: MakeJob) -> None:
    assert Job.objects.get(pk=make_job().pk).finished_at is None


@pytest.mark.parametrize("time", FAR_TIMES)
def test_figures_of_waiting_jobs_stay_finite(time: str, make_job: MakeJob) -> None:
    write(make_job(), run_after=time)
    write(make_job(status=Status.SCHEDULED), run_after=time)

    assert abs(counting.oldest_pending_seconds(Job.objects.run_sql) or 0) < 1e12
    assert abs(moving.seconds_to_next_due(Job.objects.run_sql) or 0) < 1e12
    taken = Job.objects.ops()
    assert taken.unknown == frozenset()
    assert 0 <= taken.oldest_pending_sec < 1e12


def test_a_lease_without_an_end_is_reaped(leased: MakeJob) -> None:
    """Guard: COALESCE in reap_jobs. Nobody holds such a row, and nobody would ever have taken it back."""
    job = leased(lease_until=None)

    assert Job.objects.reap() == {job.pk: Status.PENDING}


def test_a_run_that_began_never_is_stuck_by_the_age_of_its_row(leased: MakeJob) -> None:
    job = leased(claimed_at=None, run_started_at=None, created_at=ago(3_600))
    write(job, lease_until="infinity")

    assert [each.pk for each in Job.objects.stuck()] == [job.pk]
    assert Job.objects.release_stuck([job.pk]).changed == {job.pk: Status.PENDING}


def test_an_epoch_that_was_used_before_ends_all_the_same(
    leased: MakeJob, make_attempt: Callable[..., Attempt], end: Any, quiet: None
) -> None:
    """Guard: ON CONFLICT of the attempt rows in settle_ended and reap_jobs. One row must not fail a whole reap."""
    failed, lost, other = leased(), leased(), leased(lease_until=ago(1))
    for job in (failed, lost):
        make_attempt(job=job, lease_epoch=1)
    write(lost, lease_until="-infinity")

    assert end(failed, step="dead") == Status.DEAD
    assert set(Job.objects.reap()) == {lost.pk, other.pk}

    assert Attempt.objects.filter(job=failed).count() == 1


def test_interruptions_without_number_are_counted_no_further(leased: MakeJob, end: Any, quiet: None) -> None:
    interrupted, stuck = leased(max_attempts=9), leased(lease_until=ago(1))
    for job in (interrupted, stuck):
        write(job, interruptions=LARGEST)

    assert end(interrupted, outcome=Outcome.INTERRUPTED, step="interrupt") == Status.PENDING
    assert Job.objects.release_stuck([stuck.pk]).changed == {stuck.pk: Status.PENDING}

    assert set(Job.objects.values_list("interruptions", flat=True)) == {LARGEST}


def test_a_total_of_costs_stops_at_what_its_column_holds(leased: MakeJob, end: Any, quiet: None) -> None:
    """Case C124: the lines stay exact; a settle that overflowed would run the job again and again."""
    done, failed = leased(), leased()
    most = Decimal("999999999999.99999999")
    for job in (done, failed):
        write(job, cost_total=most)
    costs = [CostLine("llm", "USD", Decimal("0.25"))]

    settle_done(Job.objects.run_sql, worker_id="worker-1", jobs=[Done(done.pk, 1, costs=costs)])
    end(failed, step="dead", costs=costs)

    assert set(Job.objects.values_list("cost_total", "cost_last")) == {(most, Decimal("0.25"))}
    assert sum(Cost.objects.values_list("amount", flat=True)) == Decimal("0.5")


def test_names_of_any_length_are_folded(leased: MakeJob, end: Any, quiet: None) -> None:
    """Guard: left() in fold_stats and fold_costs. An index row has its limit, and folding would stop for good."""
    text = "".join(chr(0x4E00 + number * 37 % 20_000) for number in range(6_000))  # does not compress to a fit
    job = leased()
    write(job, job_type=text, owner=text)
    end(job, step="dead", costs=[CostLine("llm", "USD", Decimal(1))])

    for statement in ("fold_stats", "fold_costs"):
        fold(statement)

    assert Stat.objects.get().job_type == text[:63]
    assert (Cost.objects.get().owner, Cost.objects.get().amount) == (text[:255], 1)


def fold(statement: str) -> None:
    """Fold everything into minutes."""
    text = getattr(sql, statement.upper())
    assert moving.fold(Job.objects.run_sql, statement=text, from_span=0, to_span=60, age=timedelta(0), limit=9) == 1


@pytest.mark.parametrize("number", [0, 8, 99, -5])
def test_a_status_that_is_none_is_told_by_its_number(number: int, make_job: MakeJob) -> None:
    job = make_job()
    write(job, status=number)

    assert Job.objects.redrive([job.pk]).refused == {job.pk: f"is {number}"}
    with pytest.raises(InvalidTransition, match=f"is {number}"):
        Job.objects.cancel(job.pk)


# -- rows that the database refuses to change -------------------------------------------------------------------------

TRIGGER = """
CREATE FUNCTION probe_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF OLD.priority = 77 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
CREATE TRIGGER probe_refuses BEFORE UPDATE ON jobqueue_job FOR EACH ROW EXECUTE FUNCTION probe_refuses();
"""


@pytest.fixture
def refusing(transactional_db: None) -> Iterator[None]:
    """Have a trigger of the project's refuse every change of jobs with priority 77."""
    with connection.cursor() as cursor:
        cursor.execute(TRIGGER)
        yield
        cursor.execute("DROP TRIGGER probe_refuses ON jobqueue_job; DROP FUNCTION probe_refuses")


def test_a_row_that_cannot_be_promoted_holds_up_no_other(
    refusing: None, make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    """Guard: `skip` in promote_jobs and first_due. One row in the middle would stop all scheduled jobs for good."""
    places = [
        make_job(status=Status.SCHEDULED, run_after=ago(60 - n), priority=77 if n in (0, 9) else 1) for n in range(20)
    ]
    promote = Promote(Job.objects.run_sql, interval_seconds=1)

    rounds = 0
    while rounds == 0 or promote.more:
        promote.run_once()
        rounds += 1
        assert rounds < 20

    left = Job.objects.filter(status=Status.SCHEDULED)
    assert {job.pk for job in left} == {places[0].pk, places[9].pk}
    told = [record for record in caplog.records if "stepped over" in record.message]
    assert len(told) == 2
    assert "not this one" in told[0].message


def test_a_row_that_cannot_be_reaped_holds_up_no_other(refusing: None, leased: MakeJob) -> None:
    """Guard: `skip` in reap_jobs and first_expired."""
    places = [leased(lease_until=ago(1), priority=77 if n == 3 else 1) for n in range(8)]
    session = Session("default", "jobqueue maintenance test")
    reap = Reap(session, worker_id="w", lease=timedelta(0), interval_seconds=1)
    try:
        rounds = 0
        while rounds == 0 or reap.more:
            reap.run_once()
            rounds += 1
            assert rounds < 20
    finally:
        session.close()

    assert [job.pk for job in Job.objects.filter(status=Status.RUNNING)] == [places[3].pk]


def test_a_row_that_cannot_be_claimed_holds_up_no_other(refusing: None, make_job: MakeJob) -> None:
    """Guard: the claim goes around it. One row at the head would stop its queue, and all that are claimed with it."""
    places = [make_job(queue="ab"[n % 2], priority=77 if n in (2, 7) else 100) for n in range(12)]
    claims = Claims(Job.objects.run_sql, worker_id="w", lease=timedelta(seconds=60))

    claimed: list[int] = []
    for _ in range(12):
        claimed += [job.id for job in claims.claim([("a", 10), ("b", 10)], total=12)]

    assert sorted(claimed) == sorted(job.pk for n, job in enumerate(places) if n not in (2, 7))
    assert set(Job.objects.filter(status=Status.RUNNING).values_list("attempts", flat=True)) == {1}


def test_people_are_told_of_a_row_that_cannot_be_changed(refusing: None, make_job: MakeJob) -> None:
    dead = [make_job(status=Status.DEAD, priority=77 if n == 1 else 1) for n in range(3)]

    moved = Job.objects.redrive([job.pk for job in dead])

    assert set(moved.changed) == {dead[0].pk, dead[2].pk}
    assert moved.refused == {dead[1].pk: "the database refused: not this one"}
