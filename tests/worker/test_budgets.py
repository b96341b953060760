"""Budgets on what real workers spent: the queue is paused or enqueues are refused, and what runs goes on."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from jobqueue import operations
from jobqueue.exceptions import BudgetSpent
from jobqueue.models import Budget, Job, Queue
from jobqueue.ops.budgets import budget_states
from jobqueue.ops.queues import paused_queues
from jobqueue.states import Status
from tests.worker.launching import RunningWorker

from .waiting import holds_for, until

Launch = Callable[..., RunningWorker]
Enqueue = Callable[..., Job]
WaitFor = Callable[..., Any]

COSTLY = {"metrics": {"cost": {"total_usd": "0.4"}}}


def budgets(**changes: Any) -> dict[str, Any]:
    """Return BUDGETS with one budget of a dollar a month."""
    return {"llm": {"amount": "1", "per": "month", "job_type": "probe.returns", **changes}}


def paused() -> dict[str, str]:
    return {pause.name: pause.paused_by for pause in paused_queues()}


def test_a_spent_budget_pauses_the_home_queue_of_its_type_until_it_is_raised(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    worker = launch("--processes", "2", BUDGETS=budgets(at_limit="pause"))
    running = enqueue("sleep", seconds=3)
    wait_for(running, Status.RUNNING)
    for _ in range(3):
        wait_for(enqueue("returns", value=COSTLY))
    until(lambda: paused() == {"default": "budget:llm"}, what="the queue is paused")

    waiting, elsewhere = enqueue("ok"), enqueue("ok", _queue="mail")

    wait_for(running)  # what runs goes on
    wait_for(elsewhere)
    holds_for(0.5, lambda: Job.objects.get(pk=waiting.pk).status == Status.PENDING)
    row = Budget.objects.get()
    assert (row.spent, row.level, row.pauses) == (Decimal("1.2"), 100, True)
    worker.says("budget passed 100 % budget=llm spent=1.2")
    worker.stop()
    worker.ends()

    launch(BUDGETS=budgets(at_limit="pause", amount="5"))

    wait_for(waiting)
    assert paused() == {}


def test_failed_attempts_count_and_a_person_s_resume_stands(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    wait_for_dead = enqueue("spends", amounts=["0.3", "0.3"])  # twice, and fails each time
    launch(BUDGETS={"all": {"amount": "1.2", "per": "month", "at_limit": "pause"}})
    wait_for(wait_for_dead, Status.DEAD)
    until(lambda: paused() == {"*": "budget:all"}, what="everything is paused")

    waiting = enqueue("ok")
    holds_for(0.5, lambda: Job.objects.get(pk=waiting.pk).status == Status.PENDING)
    operations.resume_queue("*", actor="ann")

    wait_for(waiting)
    holds_for(1.0, lambda: paused() == {}, what="the budget does not overrule a person")


def test_a_budget_that_refuses_lets_nothing_in_and_stops_nothing(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, settings: Any
) -> None:
    settings.JOBQUEUE = {"BUDGETS": budgets(at_limit="refuse")}
    launch("--processes", "2", BUDGETS=budgets(at_limit="refuse"))
    running = enqueue("sleep", seconds=2)
    waiting = [enqueue("returns", value=COSTLY) for _ in range(4)]

    def refused() -> BudgetSpent | None:
        try:
            enqueue("returns", value=None)
        except BudgetSpent as error:
            return error
        return None

    error = until(refused, what="the budget refuses")

    (state,) = budget_states()
    assert error.resumes_at == state.window_end
    assert 1 <= error.spent <= state.spent
    for job in (running, *waiting):
        wait_for(job)  # what was let in is run
    assert enqueue("ok").pk
    assert not Queue.objects.exists()


@pytest.mark.faults
def test_two_workers_keep_one_row_and_one_pause(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    for _ in range(2):
        launch("--processes", "1", BUDGETS=budgets(at_limit="pause"), MAINTENANCE_SECONDS=0.05)
    for _ in range(3):
        wait_for(enqueue("returns", value=COSTLY))

    until(lambda: paused() == {"default": "budget:llm"}, what="the queue is paused")

    since = Queue.objects.get().paused_at
    holds_for(1.0, lambda: [row.paused_at for row in Queue.objects.all()] == [since])
    assert Budget.objects.count() == 1
