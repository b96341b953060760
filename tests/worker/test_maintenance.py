"""The maintenance thread: one service that fails does not take the others along."""

import logging
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from jobqueue.maintenance.loop import LEAST_REST_SECONDS, TOGETHER_SECONDS, Maintenance
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db


class Failing:
    """A service with a defect that is no error of the database."""

    interval_seconds = 1.0
    more = False

    def __init__(self, name: str) -> None:
        self.name = name

    def run_once(self) -> dict[str, int]:
        """Fail as a rule would that somebody wrote wrongly."""
        return {"quotient": 1 // 0}


class Slow:
    """Takes so long by a clock that it moves, and always leaves work."""

    interval_seconds = 1.0
    more = True
    name = "reap"

    def __init__(self, clock: dict[str, float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def run_once(self) -> dict[str, int]:
        """Take that long."""
        self.clock["now"] += self.seconds
        return {"reaped": 1}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return the maintenance loop's clock, which stands still."""
    clock = {"now": 100.0}
    monkeypatch.setattr("jobqueue.maintenance.loop.time.monotonic", lambda: clock["now"])
    return clock


@pytest.fixture
def maintenance() -> Maintenance:
    """Return the thread, not started."""
    return Maintenance("default", "w1", lease=timedelta(seconds=20), woke=lambda queue: None)


@pytest.mark.parametrize("name", ["alerts", "budgets"])
def test_rules_of_people_that_fail_are_told_and_tried_again_later(
    name: str, maintenance: Maintenance, caplog: pytest.LogCaptureFixture
) -> None:
    """An alert rule in the admin once ended the thread, and with it every worker."""
    with caplog.at_level(logging.WARNING, "jobqueue.maintenance"):
        maintenance._run_service(Failing(name))

    assert f"maintenance failed service={name} error=ZeroDivisionError" in caplog.text
    assert maintenance._due[name] > maintenance._due["reap"] + 5


def test_a_defect_of_the_products_own_is_not_hidden(maintenance: Maintenance) -> None:
    """The worker ends, and its supervisor starts it anew: jobs that nobody takes back must not go unnoticed."""
    with pytest.raises(ZeroDivisionError):
        maintenance._run_service(Failing("reap"))


def test_what_took_long_rests_though_others_are_due(maintenance: Maintenance, clock: dict[str, float]) -> None:
    """It would come with whatever is due within a moment, and take most of the time where a tenth is its share."""
    slow = Slow(clock, 0.02)
    maintenance._run_service(slow)
    ended, dues = clock["now"], []

    for after in (0.0, 0.15, 0.19):
        clock["now"] = ended + after
        dues.append(maintenance._is_due(slow))

    assert dues == [False, False, True]


@pytest.mark.parametrize(("name", "early"), [("reap", True), ("alerts", False), ("budgets", False)])
def test_what_is_due_in_a_moment_comes_along_but_for_turns_of_all_workers(
    name: str, early: bool, maintenance: Maintenance, clock: dict[str, float]
) -> None:
    service = Failing(name)
    maintenance._due[name] = clock["now"] + TOGETHER_SECONDS / 2

    assert maintenance._is_due(service) is early
    clock["now"] = maintenance._due[name]
    assert maintenance._is_due(service)


def test_rounds_of_a_moment_do_not_all_come_along(maintenance: Maintenance, clock: dict[str, float]) -> None:
    """With MAINTENANCE_SECONDS of 0.1 every wake-up ran everything."""
    service = Slow(clock, 0.0)
    service.interval_seconds = 0.1
    maintenance._due["reap"] = clock["now"] + 0.05

    assert not maintenance._is_due(service)


def test_who_asks_for_scheduled_jobs_all_the_time_gets_an_answer_now_and_then(
    maintenance: Maintenance, clock: dict[str, float]
) -> None:
    promote = maintenance.promote
    maintenance._rest(promote, 1.0, took=0.0001)
    maintenance._due["promote"] = 0.0  # as it is when somebody asks

    soon = maintenance._is_due(promote)
    clock["now"] += LEAST_REST_SECONDS

    assert (soon, maintenance._is_due(promote)) == (False, True)


@pytest.mark.parametrize(("away", "rests"), [(False, True), (True, False)])
def test_what_fails_slowly_rests_unless_the_database_is_away(
    away: bool, rests: bool, maintenance: Maintenance, clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage there is most to do."""

    class Refused(Slow):
        def run_once(self) -> dict[str, int]:
            super().run_once()
            raise OperationalError("canceling statement due to statement timeout")

    maintenance.session.away = away
    monkeypatch.setattr(maintenance.session, "pause", lambda: None)
    service = Refused(clock, 5.0)

    maintenance._run_service(service)

    clock["now"] += 9
    maintenance._due["reap"] = 0.0
    assert maintenance._is_due(service) is not rests
    clock["now"] += 2
    assert maintenance._is_due(service)


def test_who_asks_while_scheduled_jobs_are_looked_at_gets_another_look(maintenance: Maintenance) -> None:
    """The end of that look wrote over the wish, and a job due in a moment waited for the next round."""
    looks: list[str] = []

    class Looking:
        name, more, interval_seconds = "promote", False, 60.0
        queues: frozenset[str] = frozenset()
        next_in = None

        def run_once(self) -> dict[str, int]:
            """Be asked in the middle of the first look, and end with the second."""
            looks.append("look")
            if len(looks) == 1:
                maintenance.look_now()
            else:
                maintenance.end()
            return {}

    look: Any = Looking()
    maintenance.promote, maintenance.services = look, [look]
    maintenance._due = {"promote": 0.0}
    thread = threading.Thread(target=maintenance.run, daemon=True)
    thread.start()
    thread.join(timeout=20)
    ended = not thread.is_alive()
    maintenance.end()

    assert (ended, looks) == (True, ["look", "look"])


@pytest.mark.django_db(transaction=True)
def test_a_due_job_that_somebody_has_locked_is_not_asked_for_all_the_time(
    maintenance: Maintenance, second_connection: SecondConnection
) -> None:
    """It stayed the next one that is due: three statements each three milliseconds, for as long as the lock lasted."""
    job = JobFactory.create(status=Status.SCHEDULED, run_after=ago(5))
    second_connection.lock(job)

    maintenance._run_service(maintenance.promote)
    rests = maintenance._due["promote"] - time.monotonic()
    second_connection.rollback()
    maintenance._run_service(maintenance.promote)
    maintenance.session.close()

    assert rests > maintenance.promote.interval_seconds / 2
    job.refresh_from_db()
    assert job.status == Status.PENDING


def test_what_is_due_but_rests_does_not_keep_the_thread_awake(
    maintenance: Maintenance, clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance.services = [Slow(clock, 0.0)]
    maintenance._due, maintenance._rested = {"reap": 0.0}, {"reap": clock["now"] + 0.5}
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        maintenance.end()

    monkeypatch.setattr(maintenance._wake, "wait", wait)
    maintenance.run()

    assert waits == [pytest.approx(0.5)]
