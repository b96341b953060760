"""Claims with floors on a real table: what waits behind a floor is found, and floors go when all is quick again."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from jobqueue.managers import ClaimedJob
from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.worker import claims as claims_module
from jobqueue.worker.claims import Claims, Floor
from tests.connections import SecondConnection
from tests.factories import ago

LEASE = timedelta(seconds=60)
MakeJob = Callable[..., Job]


class Clock:
    """Monotonic time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(claims_module, "time", clock)
    return clock


class Server:
    """Runs the claims for real; `slow` makes a full scan take long, and `timeouts` makes the next ones fail by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.slow = False
        self.fails = ""  # the queue whose claims do
        self.spans: list[list[tuple[Any, ...]]] = []

    def run(self, statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        full = params["run_afters"][0] == "-infinity" and params["tops"][0] == 32767
        self.spans.append(list(zip(params["queues"], params["run_afters"], params["ids"], strict=True)))
        if self.fails in params["queues"]:
            raise OperationalError
        rows = Job.objects.run_sql(statement, params)
        self._clock.now += 0.5 if self.slow and full else 0.001
        return rows


@pytest.fixture
def server(clock: Clock) -> Server:
    return Server(clock)


@pytest.fixture
def claims(server: Server) -> Claims:
    return Claims(server.run, worker_id="w1", lease=LEASE)


def ids(jobs: list[ClaimedJob]) -> list[int]:
    return [job.id for job in jobs]


pytestmark = pytest.mark.django_db(transaction=True)


def test_claims_are_full_scans_while_they_are_quick(make_job: MakeJob, claims: Claims, server: Server) -> None:
    late = make_job(run_after=ago(1))
    claims.claim([("default", 1)], total=1)
    early = make_job(run_after=ago(100))

    assert ids(claims.claim([("default", 1)], total=1)) == [early.pk]
    assert claims.slow_queues == set()
    assert late.pk != early.pk


def slowed(claims: Claims, server: Server, make_job: MakeJob) -> Job:
    """Have one slow claim behind us: the queue is claimed with floors from here on. Returns the job it claimed."""
    for _ in range(3):
        claims.claim([("default", 1)], total=1)
    job = make_job(run_after=ago(50))
    server.slow = True
    assert ids(claims.claim([("default", 1)], total=1)) == [job.pk]
    assert claims.slow_queues == {"default"}
    return job


def test_after_a_slow_claim_the_next_start_at_the_floor(make_job: MakeJob, claims: Claims, server: Server) -> None:
    slowed(claims, server, make_job)
    behind, ahead = make_job(run_after=ago(60)), make_job(run_after=ago(40))

    assert ids(claims.claim([("default", 10)], total=10)) == [ahead.pk]
    assert Job.objects.get(pk=behind.pk).status == Status.PENDING


def test_a_better_priority_has_no_floor(make_job: MakeJob, claims: Claims, server: Server) -> None:
    slowed(claims, server, make_job)
    urgent = make_job(priority=1, run_after=ago(500))
    worse = make_job(priority=200, run_after=ago(500))

    assert ids(claims.claim([("default", 10)], total=10)) == [urgent.pk, worse.pk]


@pytest.mark.parametrize("seconds", [1, 20, 3_000, 10**7])
def test_what_waits_behind_a_floor_is_found_by_the_sweep(
    make_job: MakeJob, claims: Claims, server: Server, clock: Clock, seconds: int
) -> None:
    """However far behind, within a few sweeps; each is one slice, and they take a tenth of the time."""
    slowed(claims, server, make_job)
    behind = make_job(run_after=ago(50 + seconds))
    found: list[int] = []

    for _ in range(60):
        clock.now += 6
        found += ids(claims.claim([("default", 10)], total=10))
        if found:
            break

    assert found == [behind.pk]


def test_a_sweep_waits_for_its_tenth_of_the_time(
    make_job: MakeJob, claims: Claims, server: Server, clock: Clock
) -> None:
    slowed(claims, server, make_job)
    before = len(server.spans)

    claims.claim([("default", 10)], total=10)

    assert len(server.spans) == before + 1, "no sweep within five seconds of a claim of half a second"
    assert claims.sweep_at(["default"]) == pytest.approx(clock.now + 5, abs=0.1)


def test_what_the_first_statement_brought_is_kept_where_a_later_one_fails(
    make_job: MakeJob, claims: Claims, server: Server
) -> None:
    """Else all quick queues would stand still for as long as the claims of one slow queue fail."""
    slowed(claims, server, make_job)
    quick = make_job(queue="other")
    server.fails = "default"
    found: list[ClaimedJob] = []

    with pytest.raises(OperationalError):
        claims.claim([("default", 10), ("other", 10)], total=10, found=found)

    assert ids(found) == [quick.pk]


def test_a_sweep_is_told_to_those_alone_who_ask_for_its_queue(
    make_job: MakeJob, claims: Claims, server: Server
) -> None:
    """A worker of all queues does not ask for one that is empty: for ever due, its sweep would keep it awake."""
    slowed(claims, server, make_job)

    assert claims.sweep_at(["jobqueue", "other"]) is None
    assert claims.sweep_at(["default", "other"]) is not None


def test_floors_go_when_a_full_scan_is_quick_again(
    make_job: MakeJob, claims: Claims, server: Server, clock: Clock
) -> None:
    slowed(claims, server, make_job)
    server.slow = False
    for _ in range(60):
        clock.now += 6
        claims.claim([("default", 10)], total=10)
        if not claims.slow_queues:
            break

    assert claims.slow_queues == set()
    behind = make_job(run_after=ago(9999))
    assert ids(claims.claim([("default", 1)], total=1)) == [behind.pk]


def test_a_drain_is_told_what_may_wait_behind_a_floor_until_a_sweep_was_ended(
    make_job: MakeJob, claims: Claims, server: Server, clock: Clock
) -> None:
    """Also where full scans stay slow, for as long as somebody holds an old snapshot; and anew after each doubt."""
    assert not claims.may_be_behind(["default"])
    slowed(claims, server, make_job)
    assert claims.may_be_behind(["default"])
    assert not claims.may_be_behind(["other"])

    for _ in range(2):
        for _ in range(60):
            if not claims.may_be_behind(["default"]):
                break
            clock.now += 6
            claims.claim([("default", 10)], total=10)
        assert (claims.may_be_behind(["default"]), claims.slow_queues) == (False, {"default"})
        claims.doubt()
        assert claims.may_be_behind(["default"])


def test_an_old_snapshot_hides_no_job(
    make_job: MakeJob, claims: Claims, server: Server, clock: Clock, second_connection: SecondConnection
) -> None:
    """C103: with a snapshot held, jobs that commit late and jobs given back behind the floor are all claimed."""
    second_connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    second_connection.execute("SELECT count(*) FROM jobqueue_job")
    slowed(claims, server, make_job)
    expected, got = set(), set()

    for number in range(30):
        expected |= {make_job(run_after=ago(50 + number * 7)).pk, make_job(run_after=ago(number)).pk}
        clock.now += 1
        got |= set(ids(claims.claim([("default", 5)], total=5)))
    for _ in range(80):
        clock.now += 6
        got |= set(ids(claims.claim([("default", 5)], total=5)))

    assert got == expected
    assert Job.objects.filter(status=Status.PENDING).count() == 0
    second_connection.rollback()


def test_no_claim_exceeds_what_was_asked_for(make_job: MakeJob, claims: Claims, server: Server, clock: Clock) -> None:
    """C30: over all queues, slow and quick ones together."""
    slowed(claims, server, make_job)
    for queue in ("default", "other"):
        for _ in range(10):
            make_job(queue=queue, run_after=ago(10))
    clock.now += 10

    jobs = claims.claim([("default", 4), ("other", 4)], total=5)

    assert len(jobs) == 5
    assert Job.objects.filter(status=Status.RUNNING).count() == 1 + 5


def test_after_a_slow_sweep_other_claims_come_first() -> None:
    """C103: by time alone, one claim in five would be a slow one where claims are few."""
    floor = Floor()
    floor.rest_after(0.02, 100.0)

    assert [floor.sweep_is_due(100.3) for _ in range(26)] == [False] * 25 + [True]
    floor.rest_after(0.02, 200.0)
    assert (floor.sweep_is_due(200.3), floor.sweep_is_due(205.1)) == (False, True)
    floor.rest_after(0.001, 300.0)
    assert floor.sweep_is_due(300.1)
