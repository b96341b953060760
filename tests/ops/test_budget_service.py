"""The service that watches budgets: its rows, its pauses, what it never touches; one worker does it for all."""

import logging
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from jobqueue import operations, sql
from jobqueue.maintenance import budgets as service_module
from jobqueue.maintenance.budgets import Budgets
from jobqueue.maintenance.queues import ResumeQueues
from jobqueue.managers.leaderless import try_lock
from jobqueue.managers.sessions import Session
from jobqueue.models import Budget, Cost, Queue
from jobqueue.ops.queues import paused_queues
from tests.connections import SecondConnection
from tests.factories import CostFactory, JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db(transaction=True)

DAY: dict[str, Any] = {"amount": "1", "per": "day", "at_limit": "pause", "queue": "mail"}
HOMES = {"documents.index": "documents"}
Round = Callable[[], dict[str, int]]


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session("default", "test")
    yield session
    session.close()


@pytest.fixture
def service(session: Session) -> Budgets:
    # With a tick of 0 no row is too fresh to be looked at again.
    return Budgets(session, home_queue=HOMES.get, interval_seconds=0)


@pytest.fixture
def turn(service: Budgets, settings: Any) -> Callable[..., dict[str, int]]:
    """Return the function that does a round: turn(b={"amount": "2"}) with other budgets, turn() with those before."""

    def one(**of: dict[str, Any]) -> dict[str, int]:
        if of:
            settings.JOBQUEUE = {"BUDGETS": {name: {**DAY, **value} for name, value in of.items()}}
        return service.run_once()

    return one


def paused() -> dict[str, str]:
    """Return who pauses each queue."""
    return {pause.name: pause.paused_by for pause in paused_queues()}


def move_the_window_on() -> None:
    """Have a window pass: its costs are those of yesterday, its pause and its row end a while ago."""
    Cost.objects.all().update(at=ago(2 * 86_400))
    Budget.objects.all().update(window_start=ago(2 * 86_400), window_end=ago(60))
    Queue.objects.filter(resumes_at__isnull=False).update(resumes_at=ago(60))


def test_a_round_writes_what_is_spent_and_which_level_is_passed(turn: Callable[..., dict[str, int]]) -> None:
    CostFactory.create(queue="mail", amount="0.85")
    CostFactory.create(queue="other", amount="7")

    turn(b={}, r={"at_limit": "refuse", "queue": "other"}, big={"amount": "50"})

    rows = {row.name: (row.spent, row.level, row.refuses, row.pauses) for row in Budget.objects.all()}
    assert rows == {
        "b": (Decimal("0.85"), 80, False, False),
        "r": (7, 100, True, False),
        "big": (Decimal("0.85"), 0, False, False),
    }
    row = Budget.objects.get(name="b")
    assert (row.unit, row.amount) == ("USD", 1)
    assert row.window_start <= timezone.now() < row.window_end
    assert paused() == {}


@pytest.mark.parametrize(
    ("of", "queue"),
    [({}, "mail"), ({"queue": None}, "*"), ({"queue": None, "job_type": "documents.index"}, "documents")],
)
def test_a_spent_budget_pauses_its_queue_until_its_window_ends(
    turn: Callable[..., dict[str, int]], of: dict[str, Any], queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    CostFactory.create(queue="mail", job_type="documents.index", amount="1.5")

    with caplog.at_level(logging.INFO, "jobqueue.maintenance"):
        assert turn(b=of) == {"paused": 1, "resumed": 0}
        assert turn() == {"paused": 0, "resumed": 0}

    (pause,) = paused_queues()
    row = Budget.objects.get()
    assert (pause.name, pause.paused_by, pause.resumes_at) == (queue, "budget:b", row.window_end)
    assert re.fullmatch(r"budget \w+ is spent", pause.reason), "no amounts: not all who see a queue may see costs"
    assert (row.level, row.pauses) == (100, True)
    assert caplog.text.count("budget passed 100 % budget=b") == 1
    assert caplog.text.count("queue paused") == 1


@pytest.mark.parametrize("at_limit", ["alert", "refuse"])
def test_other_budgets_pause_nothing(turn: Callable[..., dict[str, int]], at_limit: str) -> None:
    CostFactory.create(queue="mail", amount="1")

    turn(b={"at_limit": at_limit})

    assert Budget.objects.get().level == 100
    assert paused() == {}


def test_it_resumes_when_the_window_moves_on_and_pauses_again_in_the_next(turn: Callable[..., dict[str, int]]) -> None:
    CostFactory.create(queue="mail")
    CostFactory.create(queue="mail", amount="0.9")
    turn(b={})
    assert paused() == {"mail": "budget:b"}

    move_the_window_on()
    turn()

    assert paused() == {}
    assert Budget.objects.get().level == 0

    CostFactory.create(queue="mail", amount="1")
    turn()

    assert paused() == {"mail": "budget:b"}


@pytest.mark.parametrize("change", [{"amount": "2"}, {"at_limit": "alert"}, {"at_limit": "refuse"}, {"queue": "web"}])
def test_it_resumes_when_the_budget_is_raised_or_asks_for_something_else(
    turn: Callable[..., dict[str, int]], change: dict[str, Any]
) -> None:
    CostFactory.create(queue="mail", amount="1")
    turn(b={})

    assert turn(b=change) == {"paused": 0, "resumed": 1}

    assert paused() == {}


def test_it_resumes_what_a_budget_paused_that_no_settings_have_any_more(
    turn: Callable[..., dict[str, int]], settings: Any
) -> None:
    CostFactory.create(queue="mail", amount="1")
    turn(b={})
    settings.JOBQUEUE = {}

    turn()
    assert paused() == {"mail": "budget:b"}  # a worker with the settings of before may still be there

    Budget.objects.all().update(updated_at=ago(61))
    assert turn() == {"paused": 0, "resumed": 1}
    assert (paused(), Budget.objects.count()) == ({}, 0)


def test_only_rows_that_nobody_has_written_for_a_minute_are_forgotten(
    turn: Callable[..., dict[str, int]], session: Session
) -> None:
    turn(mine={}, old={}, young={})
    Budget.objects.exclude(name="young").update(updated_at=ago(61))

    assert session.run(sql.FORGET_BUDGETS, {"names": ["mine"]}) == [("old",)]


def test_a_persons_pause_is_neither_overwritten_nor_resumed(turn: Callable[..., dict[str, int]]) -> None:
    CostFactory.create(queue="mail", amount="1")
    operations.pause_queue("mail", actor="ann", reason="mine")

    turn(b={})
    turn(b={"amount": "9"})

    assert [(pause.paused_by, pause.reason) for pause in paused_queues()] == [("ann", "mine")]


def test_the_budget_s_pause_comes_after_a_persons(turn: Callable[..., dict[str, int]]) -> None:
    """Whoever ends a pause of their own has not said that the budget may be overspent."""
    CostFactory.create(queue="mail", amount="1")
    operations.pause_queue("mail", actor="ann")
    turn(b={})

    operations.resume_queue("mail", actor="ann")
    turn()

    assert paused() == {"mail": "budget:b"}


@pytest.mark.parametrize("pauses_first", [False, True])
def test_a_person_who_resumes_what_a_budget_paused_is_not_overruled_in_this_window(
    turn: Callable[..., dict[str, int]], pauses_first: bool
) -> None:
    CostFactory.create(queue="mail", amount="1")
    turn(b={})
    if pauses_first:
        operations.pause_queue("mail", actor="ann")
        turn()

    operations.resume_queue("mail", actor="ann")
    for _ in range(3):
        turn()
    assert paused() == {}
    assert Budget.objects.get().pauses

    move_the_window_on()
    CostFactory.create(queue="mail", amount="1")
    turn()
    assert paused() == {"mail": "budget:b"}


def test_a_budget_raised_and_spent_again_pauses_again(turn: Callable[..., dict[str, int]]) -> None:
    CostFactory.create(queue="mail", amount="1")
    turn(b={})
    operations.resume_queue("mail", actor="ann")
    turn(b={"amount": "2"})

    CostFactory.create(queue="mail", amount="1")
    turn()

    assert paused() == {"mail": "budget:b"}


def test_of_two_spent_budgets_the_longer_one_keeps_the_queue_paused(turn: Callable[..., dict[str, int]]) -> None:
    CostFactory.create(queue="mail", amount="1")
    turn(day={})
    both: dict[str, dict[str, Any]] = {"day": {}, "month": {"per": "month"}}
    turn(**both)
    month = Budget.objects.get(name="month")
    if month.window_end > Budget.objects.get(name="day").window_end:  # but on the last day of a month
        assert [(pause.paused_by, pause.resumes_at) for pause in paused_queues()] == [
            ("budget:month", month.window_end)
        ]

    assert turn(day={}, month={"per": "month", "amount": "5"})["resumed"] == 0
    assert paused() == {"mail": "budget:day"}

    turn(day={"amount": "5"}, month={"per": "month", "amount": "5"})
    assert paused() == {}


def test_a_type_that_this_worker_does_not_know_pauses_nothing_and_is_told_once(
    turn: Callable[..., dict[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    CostFactory.create(job_type="strange", amount="1")

    for _ in range(3):
        turn(b={"queue": None, "job_type": "strange"})

    assert paused() == {}
    assert caplog.text.count("is not known here") == 1


def test_what_another_worker_paused_stays_paused_where_the_type_is_not_known_here(
    session: Session, turn: Callable[..., dict[str, int]]
) -> None:
    CostFactory.create(job_type="documents.index", amount="1")
    turn(b={"queue": None, "job_type": "documents.index"})

    Budgets(session, home_queue=lambda _: None, interval_seconds=0).run_once()

    assert paused() == {"documents": "budget:b"}


def test_a_person_is_not_overruled_after_a_worker_that_does_not_know_the_type(
    session: Session, turn: Callable[..., dict[str, int]]
) -> None:
    CostFactory.create(job_type="documents.index", amount="1")
    turn(b={"queue": None, "job_type": "documents.index"})
    operations.resume_queue("documents", actor="ann")

    Budgets(session, home_queue=lambda _: None, interval_seconds=0).run_once()
    turn()

    assert paused() == {}


def test_one_worker_at_a_time_and_only_once_a_tick(
    session: Session, turn: Callable[..., dict[str, int]], second_connection: SecondConnection
) -> None:
    CostFactory.create(queue="mail", amount="1")
    assert try_lock(second_connection.execute, "budgets")
    assert turn(b={}) == {}
    assert not Budget.objects.exists()

    second_connection.commit()
    turn()
    patient = Budgets(session, home_queue=HOMES.get, interval_seconds=60)
    assert patient.run_once() == {}

    Budget.objects.all().update(updated_at=ago(61))
    assert patient.run_once() == {"paused": 0, "resumed": 0}


def test_a_long_window_is_summed_in_two_parts_and_stays_exact(
    turn: Callable[..., dict[str, int]], service: Budgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old part is kept for five minutes, the young part is summed at each round."""
    for seconds in (1, 3_000, 6_000, 20_000, 200_000):
        CostFactory.create(queue="mail", amount=seconds, at=ago(seconds))

    def by_hand() -> Decimal:
        row = Budget.objects.get()
        amounts = Cost.objects.filter(at__gte=row.window_start, at__lt=row.window_end).values_list("amount", flat=True)
        return sum(amounts, Decimal(0))

    turn(b={"per": "month", "at_limit": "alert"})
    assert Budget.objects.get().spent == by_hand()
    edges = [kept.edge for kept in service._settled.values()]
    CostFactory.create(queue="mail", amount="0.00000001")
    turn()
    assert Budget.objects.get().spent == by_hand()
    assert [kept.edge for kept in service._settled.values()] == edges

    late = CostFactory.create(queue="mail", amount="5", at=ago(100))
    Cost.objects.filter(pk=late.pk).update(at=Budget.objects.get().window_start)  # a transaction of hours ago
    monkeypatch.setattr(service_module, "SETTLED_SECONDS", 0)
    turn()
    assert Budget.objects.get().spent == by_hand()


def test_without_budgets_the_service_looks_once_a_minute(session: Session, settings: Any) -> None:
    service = Budgets(session, home_queue=HOMES.get, interval_seconds=1)

    service.run_once()
    assert service.interval_seconds == 60

    settings.JOBQUEUE = {"BUDGETS": {"b": DAY}}
    service.run_once()
    assert service.interval_seconds == 1


def test_a_resume_wakes_who_sleeps(turn: Callable[..., dict[str, int]], heard: Callable[[], list[str]]) -> None:
    WorkerFactory.create(idle=True, queues=["*"])
    CostFactory.create(queue="mail", amount="1")
    turn(b={})
    assert heard() == []

    turn(b={"amount": "2"})

    assert heard() == ["mail"]


def test_pauses_that_are_over_are_cleared_and_wake_who_sleeps(session: Session, heard: Callable[[], list[str]]) -> None:
    WorkerFactory.create(idle=True, queues=["*"])
    JobFactory.create(queue="web")
    Queue.objects.create(name="mail", paused_at=ago(9), paused_by="ann", reason="r", resumes_at=ago(1))
    Queue.objects.create(name="*", paused_at=ago(9), paused_by="ann", resumes_at=ago(1))
    Queue.objects.create(name="on", paused_at=ago(9), paused_by="ann")

    service = ResumeQueues(session.run, interval_seconds=1)
    assert service.run_once() == {"resumed": 2}
    assert service.run_once() == {"resumed": 0}

    assert set(heard()) == {"mail", "web"}
    row = Queue.objects.get(name="mail")
    assert (row.paused_at, row.paused_by, row.reason, row.resumes_at) == (None, "", "", None)
    assert paused() == {"on": "ann"}


def test_clearing_waits_for_nobody(session: Session, second_connection: SecondConnection) -> None:
    Queue.objects.create(name="mail", paused_at=ago(9), resumes_at=ago(1))
    second_connection.execute("SELECT 1 FROM jobqueue_queue FOR UPDATE")

    assert ResumeQueues(session.run, interval_seconds=1).run_once() == {"resumed": 0}
