"""Several who evaluate and tell at once, and targets that cannot be: one message an incident all the same."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from jobqueue.exceptions import InvalidWebhook
from jobqueue.maintenance.alerts import evaluate
from jobqueue.models import Incident, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops import alerts
from jobqueue.ops.alert_sending import enqueue_messages
from jobqueue.states import Status
from tests.connections import SecondConnection, Watcher
from tests.factories import JobFactory

from .alerting import AT_ONCE, HOOK, Rules, State, chooser, look, only

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]


@pytest.fixture
def rules(settings: Settings) -> Rules:
    """Return the function that sets the rules."""
    return chooser(settings)


def test_of_two_workers_one_evaluates_and_the_other_finds_it_done(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    every = timedelta(seconds=10)

    first, second = (evaluate("default", every=every) for _ in range(2))

    assert (first.at is not None, second.at) == (True, None)
    assert len(first.fired) == 1


@pytest.mark.django_db(transaction=True)
def test_while_one_evaluates_another_steps_aside_without_waiting(
    rules: Rules, second_connection: SecondConnection
) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    second_connection.execute("BEGIN")
    second_connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended("
        "concat_ws('/', 'jobqueue', current_database(), current_schema(), 'alerts'), 0))"
    )

    assert look().at is None
    second_connection.execute("ROLLBACK")

    assert look().at is not None


@pytest.mark.django_db(transaction=True)
def test_what_is_being_told_is_neither_waited_for_nor_told_again(
    rules: Rules, second_connection: SecondConnection
) -> None:
    """A mail server thinks while `manage.py jobqueue_alerts` holds the incident, and a worker's turn comes."""
    rules(dead_1h=AT_ONCE, stuck_running=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    look()
    incident = only()
    second_connection.execute(
        "UPDATE jobqueue_incident SET untold = false, fired_told_at = statement_timestamp() WHERE id = %s",
        [incident.pk],
    )

    meanwhile = look()  # with a wait it would fail: nobody ends the other's transaction
    second_connection.commit()
    after = look()

    assert (meanwhile.firing, meanwhile.fired, after.firing, after.fired) == ([incident], [], [incident], [])
    incident.refresh_from_db()
    assert (incident.untold, incident.fired_told_at is not None) == (False, True)


@pytest.mark.django_db(transaction=True)
def test_nobody_tells_of_an_incident_while_it_is_looked_at(
    rules: Rules, second_connection: SecondConnection, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what the look stores would undo that it was told, and it would be told again."""
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    look()
    incident, waiting = only(), []

    def measure(*arguments: Any, **named: Any) -> Any:
        mark = "UPDATE jobqueue_incident SET untold = false, fired_told_at = statement_timestamp()"
        waiting.append(second_connection.start_execute(mark))
        watcher.wait_until_blocked(second_connection.pid)
        return alerts.measure(*arguments, **named)

    monkeypatch.setattr("jobqueue.maintenance.alerts.measure", measure)
    look()
    waiting[0].result(timeout=10)
    second_connection.commit()

    incident.refresh_from_db()
    assert (incident.untold, incident.fired_told_at is not None) == (False, True)


def test_a_target_that_cannot_be_keeps_nobody_else_from_hearing(rules: Rules, settings: Settings) -> None:
    rules()
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_WEBHOOKS": [{"url": HOOK, "secret": "gone"}, HOOK]}
    incident = Incident.objects.create(rule="x", state=State.FIRING, fired_at=StatementTimestamp(), untold=True)

    assert enqueue_messages(incident.pk, using="default") == 1

    incident.refresh_from_db()
    assert (incident.untold, Job.objects.get().payload["url"]) == (False, HOOK)


def test_where_no_target_can_be_it_stays_untold(rules: Rules, settings: Settings) -> None:
    rules()
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_WEBHOOKS": [{"url": HOOK, "secret": "gone"}]}
    incident = Incident.objects.create(rule="x", state=State.FIRING, fired_at=StatementTimestamp(), untold=True)

    with pytest.raises(InvalidWebhook, match="no secret named 'gone'"):
        enqueue_messages(incident.pk, using="default")

    incident.refresh_from_db()
    assert incident.untold


@pytest.mark.django_db(transaction=True)
def test_of_a_worker_and_a_command_that_tell_at_once_one_tells(
    rules: Rules, second_connection: SecondConnection, watcher: Watcher
) -> None:
    """The job `jobqueue.alert` and `manage.py jobqueue_alerts` meet at one incident: the second finds it told."""
    rules()
    incident = Incident.objects.create(rule="x", state=State.FIRING, fired_at=StatementTimestamp(), untold=True)
    second_connection.lock(incident)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]

    def tell_and_commit() -> None:
        watcher.wait_until_blocked(pid, by=second_connection.pid)
        second_connection.execute(
            "UPDATE jobqueue_incident SET untold = false, fired_told_at = statement_timestamp() WHERE id = %s",
            [incident.pk],
        )
        second_connection.raw.commit()

    first = second_connection.start(tell_and_commit)
    with transaction.atomic():
        told = enqueue_messages(incident.pk, using="default")
    first.result(timeout=10)

    assert (told, Job.objects.count()) == (0, 0)
