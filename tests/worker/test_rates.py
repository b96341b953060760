"""The price list on real runs: what each used is charged exactly, however it ended, and once."""

from decimal import ROUND_HALF_UP, Decimal

import pytest

from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .conftest import LEASE_SECONDS
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until

MB = 2**20
RATE = {"cpu_second": "2", "gb_second": "3", "call": "0.001"}
RATES = {"probe.works": RATE}
PLACES = Decimal("1E-8")


def charged(job_type: str = "probe.works") -> dict[str, Decimal]:
    """Return the sums of a type's cost rows by component."""
    found: dict[str, Decimal] = {}
    for component, amount in Cost.objects.filter(job_type=job_type).values_list("component", "amount"):
        found[component] = found.get(component, Decimal(0)) + amount
    return found


def exact(value: Decimal) -> Decimal:
    return value.quantize(PLACES, ROUND_HALF_UP)


def expected(outcome: Outcome, cpu: float, peak: int) -> dict[str, Decimal]:
    """Return the price by hand, of the figures that the statistics and the row have of the one run."""
    run_seconds = Decimal(repr(Stat.objects.get(job_type="probe.works", outcome=outcome).run_seconds))
    return {
        "cpu": exact(Decimal(repr(cpu)) * 2),
        "memory": exact(Decimal(peak) / 10**9 * run_seconds * 3),
        "call": Decimal("0.001"),
    }


@pytest.mark.parametrize(("how", "cpu", "mb"), [("done", 0.3, 90), ("program", 0.4, 0), ("done", 0, 0)])
def test_a_good_run_is_charged_what_it_used(
    how: str, cpu: float, mb: int, launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """Also one whose work was done by a program, and one too short to be looked at while it ran."""
    launch("--processes", "1", RATES=RATES)

    done = wait_for(enqueue("works", how=how, cpu=cpu, mb=mb))

    assert cpu <= done.cpu_seconds < cpu + 0.4
    assert done.peak_memory_bytes > (20 + mb) * MB
    assert charged() == expected(Outcome.DONE, done.cpu_seconds, done.peak_memory_bytes)
    assert done.cost_total == done.cost_last == sum(charged().values()) > Decimal("0.001") + 2 * Decimal(str(cpu))


@pytest.mark.faults
@pytest.mark.parametrize(
    ("how", "outcome"), [("fail", Outcome.FAILED), ("hang", Outcome.DEADLINE), ("die", Outcome.CRASHED)]
)
def test_a_run_that_fails_is_stopped_or_dies_is_charged_too(
    how: str, outcome: Outcome, launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    limits = {"probe.works": {"duration": 4}} if how == "hang" else {}
    launch("--processes", "1", RATES=RATES, LIMITS=limits)

    dead = wait_for(enqueue("works", how=how, cpu=0.3, mb=60, _max_attempts=1), Status.DEAD)

    lost = dead.attempt_rows.get()
    assert lost.outcome == outcome
    assert 0.28 < lost.cpu_seconds < 0.9
    assert lost.peak_memory_bytes > 70 * MB
    assert charged() == expected(outcome, lost.cpu_seconds, lost.peak_memory_bytes)
    assert dead.cost_total == lost.cost == sum(charged().values())


def test_a_handler_that_cannot_be_asked_is_charged_up_to_its_kill(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """Nobody tells what a killed process has used: it was looked at while it ran."""
    launch("--processes", "1", RATES={"probe.stubborn": RATE})

    dead = wait_for(enqueue("stubborn", how="except_all", _max_attempts=1), Status.DEAD)

    lost = dead.attempt_rows.get()
    assert (lost.outcome, lost.exit_code) == (Outcome.DEADLINE, -9)
    assert set(charged("probe.stubborn")) >= {"memory", "call"}
    assert lost.cost == sum(charged("probe.stubborn").values())


def test_each_attempt_is_charged_once_and_a_snooze_is_none(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1", RATES={"probe.works": {"call": "1"}})

    dead = wait_for(enqueue("works", how="fail"), Status.DEAD)
    snoozed = wait_for(enqueue("works", how="snooze"))

    assert (dead.cost_total, [row.cost for row in dead.attempt_rows.all()]) == (2, [1, 1])
    assert snoozed.cost_total == 1
    assert charged() == {"call": 3}


def test_a_job_finished_in_its_own_transaction_is_charged_in_it(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    launch("--processes", "1", RATES=RATES)

    done = wait_for(enqueue("works", how="complete", cpu=0.2))

    assert done.cost_total == sum(charged().values())
    assert charged()["cpu"] == exact(Decimal(repr(done.cpu_seconds)) * 2) >= Decimal("0.4")
    assert charged()["call"] == Decimal("0.001")
    assert charged()["memory"] > 0


def test_what_is_charged_by_rate_and_what_is_not(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """A reported cost, of nothing too, stands instead; an alias has its type's rate, others that of all."""
    launch("--processes", "1", RATES={"probe.works": {"call": "1"}, "*": {"call": "0.5"}})

    free = wait_for(enqueue("works", how="free"))
    reported = wait_for(enqueue("returns", value={"metrics": {"cost": {"total_usd": 7}}}))
    alias = wait_for(enqueue("works_of_old"))
    other = wait_for(enqueue("ok"))
    unknown = wait_for(enqueue("works", how="done", _max_attempts=1))

    assert [job.cost_total for job in (free, reported, alias, other, unknown)] == [0, 7, 1, Decimal("0.5"), 1]


@pytest.mark.faults
def test_of_a_worker_that_is_killed_the_last_second_is_not_charged(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """The price so far is written down like reported costs, from the first second on."""
    worker = launch(
        "--processes",
        "1",
        RATES={"probe.mark": {"gb_second": "1", "call": "1"}},
        LIMITS={"probe.mark": {"duration": 60}},
    )
    job = enqueue("mark", seconds=30, _max_attempts=1)
    effects.wait("start")
    until(lambda: Decimal((Job.objects.get(pk=job.pk).open_costs or [[0, 0, 0]])[0][2]) > Decimal("0.05"))
    worker.kill_all()
    written = {line[0]: Decimal(line[2]) for line in Job.objects.get(pk=job.pk).open_costs}
    launch("--processes", "1")

    dead = wait_for(job, Status.DEAD, within=3 * LEASE_SECONDS)

    assert written["call"] == 1
    assert charged("probe.mark") == written
    assert dead.cost_total == Attempt.objects.get(job=job).cost == sum(written.values())


def test_with_several_slots_a_child_is_charged_once(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """Four runs at the same time in one process have a quarter of its memory each."""
    launch("--processes", "1", "--threads", "4", RATES={"probe.mark": {"gb_second": "1"}})
    jobs = [enqueue("mark", seconds=1.2) for _ in range(4)]

    for job in jobs:
        done = wait_for(job)
        seconds = (done.finished_at - done.run_started_at).total_seconds()
        whole = done.peak_memory_bytes / 1e9 * seconds
        assert float(done.cost_total) == pytest.approx(whole / 4, rel=0.02)
