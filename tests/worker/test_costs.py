"""Costs of real runs: kept whatever becomes of the attempt, of its child, or of the whole worker."""

from datetime import timedelta
from decimal import Decimal

import pytest

from jobqueue import operations
from jobqueue.models import Attempt, Cost, Job
from jobqueue.outcomes import Outcome
from tests.connections import SecondConnection

from .conftest import LEASE_SECONDS
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until

EACH = Decimal("0.01")
LOST_SECONDS = 1.3  # a beat is a second, and the machine of the tests is busy


def lines(job: Job) -> dict[str, Decimal]:
    """Return the sums of a type's cost rows by component."""
    found: dict[str, Decimal] = {}
    for component, amount in Cost.objects.filter(job_type=job.job_type).values_list("component", "amount"):
        found[component] = found.get(component, Decimal(0)) + amount
    return found


def test_a_kill_of_the_whole_worker_loses_the_last_second_at_most(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C122. The heartbeat writes down what was reported; the reaper charges it to the lost attempt."""
    worker = launch("--processes", "1")
    job = enqueue("keeps_spending", each=str(EACH), every=0.02, seconds=30)
    until(lambda: effects.count("spent") > 100, what="two seconds of spending")

    worker.kill_all()
    spent = effects.all("spent")
    last = spent[-1].at
    launch("--processes", "1")
    done = wait_for(job, within=3 * LEASE_SECONDS)

    (lost,) = Attempt.objects.filter(job=job)
    certain = sum(row.at < last - timedelta(seconds=LOST_SECONDS) for row in spent)
    assert certain > 30
    assert certain * EACH <= lost.cost <= len(spent) * EACH
    assert (lost.outcome, done.cost_total, done.cost_last) == (Outcome.LEASE_EXPIRED, lost.cost, 0)
    assert lines(job) == {"llm": lost.cost}
    assert done.open_costs is None


@pytest.mark.faults
def test_a_stuck_job_that_a_person_releases_has_cost_what_it_had(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    worker = launch("--processes", "1", "--no-maintenance")
    job = enqueue("keeps_spending", each=str(EACH), every=0.1, seconds=30)
    until(lambda: Job.objects.get(pk=job.pk).open_costs, what="costs written while it runs")
    worker.kill_all()
    written = Decimal(Job.objects.get(pk=job.pk).open_costs[0][2])
    until(lambda: Job.objects.stuck().exists(), within=LEASE_SECONDS + 2)

    assert operations.release([job.pk], actor="command").changed == [job.pk]

    assert Job.objects.get(pk=job.pk).cost_total == written == Attempt.objects.get().cost > 0
    assert lines(job) == {"llm": written}


def test_very_many_amounts_become_one_line_a_component(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """20,000 calls in one attempt, and a refund that the settings allow."""
    launch("--processes", "1", COST_REFUND_MAX="0.5")

    done = wait_for(enqueue("spends_often", times=20_000), within=30)

    assert done.cost_total == Decimal("-0.48")
    assert Cost.objects.count() == 2
    assert lines(done) == {"llm": Decimal("-0.49"), "ocr": Decimal("0.01")}


def test_a_result_tells_its_costs_by_component(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch("--processes", "1")
    cost = {"total_usd": 0.3, "components": {"llm": 0.1, "proxy": "0.15"}}

    done = wait_for(enqueue("returns", value={"metrics": {"cost": cost}}))
    wrong = {"metrics": {"cost": {"total_usd": 0.3, "components": {"llm": 0.1, "proxy": 0.25}}}}
    for _ in range(2):
        wait_for(enqueue("returns", value=wrong))

    assert done.cost_total == Decimal("0.3")
    assert lines(done) == {"llm": Decimal("0.1"), "proxy": Decimal("0.15"), "result": Decimal("0.65")}
    worker.says("costs in results type=probe.returns only the total is kept: the components are 0.05")
    assert worker.log.count("costs in results") == 1


@pytest.mark.faults
def test_what_could_not_be_written_for_a_lock_is_written_at_a_later_beat(
    launch: Launch, enqueue: Enqueue, effects: Effects, second_connection: SecondConnection
) -> None:
    """The heartbeat steps over a row that a project's transaction has locked, and forgets nothing of it."""
    launch("--processes", "1")
    job = enqueue("keeps_spending", each=str(EACH), every=0.1, seconds=20)
    effects.wait("spent")
    second_connection.lock(job)
    before = Job.objects.get(pk=job.pk).open_costs
    until(lambda: effects.count("spent") > 25, what="more than two beats of spending")
    spent = effects.count("spent") * EACH

    assert Job.objects.get(pk=job.pk).open_costs == before
    second_connection.rollback()

    until(lambda: Decimal((Job.objects.get(pk=job.pk).open_costs or [[0, 0, 0]])[0][2]) >= spent, within=4)
