"""Incidents: opened, fired, resolved and told once each, by real rows and with time as the database has it."""

import logging
from datetime import timedelta

import pytest
from django.db import transaction
from pytest_django import Settings

from jobqueue import sql
from jobqueue.maintenance.alerts import Alerts, evaluate, untold
from jobqueue.managers.sessions import Session
from jobqueue.models import AlertRule, Incident, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops import reading
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import JobFactory, ago

from .alerting import AT_ONCE, Rules, State, age_everything, alert_jobs, chooser, look, only

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]


@pytest.fixture
def rules(settings: Settings) -> Rules:
    """Return the function that sets the rules."""
    return chooser(settings)


# One message each


def test_twenty_ticks_of_one_trouble_are_one_incident_and_one_message(rules: Rules) -> None:
    """Case C140: the same alarm is not repeated every tick."""
    rules(dead_1h=AT_ONCE)
    JobFactory.create_batch(2, status=Status.DEAD)

    fired = [len(look().fired) for _ in range(20)]

    incident = only()
    assert fired == [1] + [0] * 19
    assert (incident.state, incident.value, incident.threshold) == (State.FIRING, 2, 1)
    assert alert_jobs() == [incident.pk]


def test_a_resolved_incident_is_told_once_more_and_stays_in_the_history(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    look()
    Incident.objects.update(untold=False, fired_told_at=StatementTimestamp())
    Job.objects.filter(job_type="jobqueue.alert").update(status=Status.DONE, finished_at=StatementTimestamp())
    Job.objects.filter(status=Status.DEAD).update(finished_at=ago(3_700))

    resolved = [len(look().resolved) for _ in range(20)]

    incident = only()
    assert resolved == [1] + [0] * 19
    assert (incident.state, incident.untold) == (State.RESOLVED, True)
    assert alert_jobs() == [incident.pk] * 2


def test_the_job_that_tells_is_the_packages_own_and_due_at_once(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)

    look()

    job = Job.objects.get(job_type="jobqueue.alert")
    assert (job.queue, job.status, job.priority) == ("jobqueue", Status.PENDING, 0)


def test_without_anybody_to_tell_no_job_is_made_and_the_log_has_it(
    rules: Rules, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    rules(dead_1h=AT_ONCE)
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_WEBHOOKS": []}
    JobFactory.create(status=Status.DEAD, last_error="no such table")

    with caplog.at_level(logging.INFO, logger="jobqueue.alerts"):
        look()
        look()
        Job.objects.update(finished_at=ago(3_700))
        look()

    assert (alert_jobs(), untold("default")) == ([], [])
    assert [record.message.split(" incident=")[0] for record in caplog.records] == ["alert firing", "alert resolved"]
    assert "rule=dead_1h subject=- value=1.0 text=1 dead letter within the last 1 h: probe.ok 1" in caplog.text


def test_an_evaluation_that_is_rolled_back_tells_nobody(rules: Rules) -> None:
    """The message is enqueued in the transaction that changes the incident."""
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)

    with transaction.atomic():
        look()
        transaction.set_rollback(True)

    assert (Incident.objects.count(), alert_jobs()) == (0, [])


def test_a_dry_evaluation_says_what_would_fire_and_keeps_nothing(
    rules: Rules, caplog: pytest.LogCaptureFixture
) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)

    found = evaluate("default", dry=True)

    assert [incident.rule for incident in found.fired] == ["dead_1h"]
    assert (Incident.objects.count(), alert_jobs(), caplog.text) == (0, [], "")


# Lasting, hysteresis, quiet


def test_a_trouble_that_does_not_last_is_dropped_without_a_word(rules: Rules) -> None:
    rules(dead_1h={**AT_ONCE, "for_seconds": 60})
    job = JobFactory.create(status=Status.DEAD)
    look()
    assert only().state == State.PENDING

    Job.objects.filter(pk=job.pk).update(finished_at=ago(3_700))
    look()

    assert (Incident.objects.count(), alert_jobs()) == (0, [])


def test_a_trouble_fires_when_it_has_lasted_and_not_before(rules: Rules) -> None:
    rules(dead_1h={**AT_ONCE, "for_seconds": 60})
    JobFactory.create(status=Status.DEAD)
    look()

    age_everything(50)
    assert look().fired == []
    age_everything(11)

    assert len(look().fired) == 1
    assert look().fired == []


def test_an_incident_ends_only_when_it_was_calm_long_enough(rules: Rules) -> None:
    rules(dead_1h={**AT_ONCE, "clear_for_seconds": 60})
    job = JobFactory.create(status=Status.DEAD)
    look()
    Job.objects.filter(pk=job.pk).update(finished_at=ago(3_700))
    look()
    age_everything(50)
    assert look().resolved == []

    JobFactory.create(status=Status.DEAD)  # broken again: the time begins anew
    look()
    Job.objects.filter(status=Status.DEAD).update(finished_at=ago(3_700))
    look()
    age_everything(50)
    assert look().resolved == []
    age_everything(11)

    assert len(look().resolved) == 1
    assert Incident.objects.count() == 1


def test_between_the_two_levels_an_incident_goes_on(rules: Rules) -> None:
    rules(dead_1h={**AT_ONCE, "threshold": 3, "clear_threshold": 2})
    JobFactory.create_batch(3, status=Status.DEAD)
    look()

    Job.objects.filter(pk=Job.objects.dead()[0].pk).update(status=Status.CANCELLED)
    assert look().resolved == []
    Job.objects.filter(pk=Job.objects.dead()[0].pk).update(status=Status.CANCELLED)

    assert len(look().resolved) == 1
    assert only().worst == 3


def test_the_cool_down_keeps_the_same_alarm_quiet_for_a_while(rules: Rules) -> None:
    rules(dead_1h={**AT_ONCE, "cooldown_seconds": 300})
    job = JobFactory.create(status=Status.DEAD)
    look()
    Job.objects.filter(pk=job.pk).update(finished_at=ago(3_700))
    look()
    JobFactory.create(status=Status.DEAD)

    assert (look().fired, Incident.objects.count()) == ([], 1)
    age_everything(301)

    assert len(look().fired) == 1
    assert Incident.objects.count() == 2


def test_a_muted_rule_is_watched_but_nobody_is_told_until_the_mute_is_over(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    AlertRule.objects.create(name="dead_1h", muted_until=StatementTimestamp() + timedelta(hours=1))
    JobFactory.create(status=Status.DEAD)
    look()
    assert (only().state, only().untold, alert_jobs()) == (State.FIRING, False, [])

    AlertRule.objects.update(muted_until=ago(1))
    look()

    assert alert_jobs() == [only().pk]


def test_what_began_and_ended_while_muted_is_never_told(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    AlertRule.objects.create(name="dead_1h", muted_until=StatementTimestamp() + timedelta(hours=1))
    JobFactory.create(status=Status.DEAD)
    look()
    Job.objects.update(finished_at=ago(3_700))
    look()
    AlertRule.objects.update(muted_until=None)
    look()

    assert (only().state, alert_jobs()) == (State.RESOLVED, [])


def test_an_incident_of_a_rule_that_is_switched_off_ends(rules: Rules) -> None:
    rules(dead_1h=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    look()

    AlertRule.objects.create(name="dead_1h", enabled=False)

    assert len(look().resolved) == 1
    assert look().resolved == []


def test_a_value_that_cannot_be_read_changes_nothing(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C143: what is unknown is neither a trouble nor its end."""
    rules(stuck_running=AT_ONCE)
    JobFactory.create(expired=True)
    look()

    monkeypatch.setattr(reading, "TOTAL", timedelta(0))
    found = look()

    assert (found.resolved, only().state) == ([], State.FIRING)
    assert "stuck_running" in found.unknown


@pytest.mark.django_db(transaction=True)
def test_a_table_that_is_locked_leaves_the_other_rules_watching(
    rules: Rules, second_connection: SecondConnection, settings: Settings
) -> None:
    """Case C143, on a worker's own connection, whose statements wait half a second for a lock."""
    settings.JOBQUEUE = {
        **settings.JOBQUEUE,
        "BUDGETS": {"all": {"amount": "1", "unit": "USD", "per": "day", "at_limit": "alert"}},
    }
    rules(dead_1h=AT_ONCE, budget_80=AT_ONCE, cost_1h_usd={**AT_ONCE, "window_seconds": 60}, figures_unknown=AT_ONCE)
    JobFactory.create(status=Status.DEAD)
    second_connection.execute("BEGIN")
    second_connection.execute("LOCK TABLE jobqueue_cost IN ACCESS EXCLUSIVE MODE")
    session = Session("default", "jobqueue maintenance test")

    try:
        Alerts(session).run_once()
    finally:
        session.close()

    found = {incident.rule: incident.text for incident in Incident.objects.all()}
    assert set(found) == {"dead_1h", "figures_unknown"}
    assert "budget_80, cost_1h_usd" in found["figures_unknown"]


def test_a_statement_that_fails_leaves_the_other_rules_watching(
    rules: Rules, settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules(dead_1h=AT_ONCE, blocked={"counter": "x", "above": 1, **AT_ONCE})
    monkeypatch.setattr(sql, "COUNT_OVER", "SELECT no_such_column FROM jobqueue_counter")
    JobFactory.create(status=Status.DEAD)

    found = look()

    assert [incident.rule for incident in found.fired] == ["dead_1h"]
    assert "blocked" in found.unknown
    assert "alert value not read error=column" in caplog.text
