"""What each alert rule looks at, by real rows: its value, its subject, and the sentence that people read."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from pytest_django import Settings

from jobqueue.models import Incident, Job, Queue, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops import alert_values, reading
from jobqueue.ops.alerts import MOST_SUBJECTS
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import AttemptFactory, CostFactory, JobFactory, StatFactory, WorkerFactory, ago
from tests.worker.waiting import until

from .alerting import AT_ONCE, Rules, State, chooser, look, only

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]


@pytest.fixture
def rules(settings: Settings) -> Rules:
    """Return the function that sets the rules."""
    return chooser(settings)


def test_overruns_are_counted_with_their_types(rules: Rules) -> None:
    rules(deadline_1h=AT_ONCE)
    late = JobFactory.create(status=Status.DEAD, job_type="probe.sleep")
    for epoch in range(1, 6):
        AttemptFactory.create(job=late, number=epoch, outcome=Outcome.DEADLINE)
    AttemptFactory.create(outcome=Outcome.DEADLINE, finished_at=ago(3_700))
    AttemptFactory.create(outcome=Outcome.DEADLINE, job=JobFactory.create(queue="jobqueue", status=Status.DEAD))

    look()

    assert only().value == 5
    assert only().text == ("5 attempts ran into their deadline within the last 1 h: probe.sleep 5 (alert at ≥ 5)")


def test_a_window_of_its_own_is_read_for_itself(rules: Rules) -> None:
    rules(
        deadline_1h={**AT_ONCE, "threshold": 1, "window_seconds": 20},
        dead_1h={**AT_ONCE, "threshold": 1, "window_seconds": 20},
        cost_1h_usd={**AT_ONCE, "threshold": 1, "window_seconds": 20},
    )
    AttemptFactory.create(outcome=Outcome.DEADLINE, finished_at=ago(30))
    Job.objects.update(finished_at=ago(30))
    CostFactory.create(amount="5", at=ago(30))
    assert look().fired == []

    JobFactory.create(status=Status.DEAD)
    AttemptFactory.create(outcome=Outcome.DEADLINE)
    CostFactory.create(amount="1.5", job_type="documents.index")

    assert {incident.rule: incident.value for incident in look().fired} == {
        "deadline_1h": 1,
        "dead_1h": 2,
        "cost_1h_usd": 1.5,
    }


def test_costs_fire_at_the_threshold_with_the_dearest_types(rules: Rules) -> None:
    rules(cost_1h_usd=AT_ONCE)
    CostFactory.create(amount="0.60", job_type="documents.index")
    CostFactory.create(amount="0.39")
    assert look().fired == []

    CostFactory.create(amount="0.01")
    look()

    assert only().text.startswith("1 USD were spent within the last 1 h: documents.index 0.6, probe.ok 0.4")


def test_a_backlog_is_one_alert_a_queue_and_nothing_of_it_is_stuck(rules: Rules) -> None:
    """Case C140: one slot busy, twenty queued: no stuck job, one alert about the age of the backlog."""
    rules(stuck_running=AT_ONCE, oldest_pending_sec=AT_ONCE)
    JobFactory.create(status=Status.RUNNING)
    JobFactory.create_batch(20, run_after=ago(400), created_at=ago(400))
    JobFactory.create_batch(3, run_after=ago(500), queue="mail")
    JobFactory.create(run_after=ago(100), queue="young")

    fired = look().fired
    for _ in range(19):
        look()

    assert [(incident.rule, incident.subject) for incident in fired] == [
        ("oldest_pending_sec", "default"),
        ("oldest_pending_sec", "mail"),
    ]
    assert Incident.objects.count() == 2
    assert "the oldest due job of queue default waits for 6 min 40 s; 20 jobs due" in fired[0].text


def test_a_truly_stuck_job_is_one_incident_with_its_count(rules: Rules) -> None:
    """Case C140."""
    rules(stuck_running=AT_ONCE)
    job = JobFactory.create(expired=True)
    for _ in range(20):
        look()
    assert only().text.startswith(
        f"1 running job stuck: the lease ran out, or the run lasts too long: #{job.pk} probe.ok"
    )

    Job.objects.update(status=Status.DONE, lease_until=None, finished_at=StatementTimestamp())
    look()

    assert only().state == State.RESOLVED


def test_a_queue_that_nobody_serves_is_named_and_a_paused_one_is_not(rules: Rules) -> None:
    """Case C144: a typo in a queue's name makes jobs wait for ever, and somebody hears of it."""
    rules(queue_without_worker={**AT_ONCE})
    WorkerFactory.create(queues=["emails", "xyz"])
    JobFactory.create_batch(3, queue="emial")
    JobFactory.create(queue="emails")
    JobFactory.create(queue="held")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO jobqueue_queue (name, paused_at, paused_by) VALUES ('held', now(), 'ann')")

    look()

    assert (only().subject, only().value) == ("emial", 3)
    assert only().text.startswith("no living worker serves queue emial: 3 jobs due, the oldest for ")


def test_a_queue_is_without_a_worker_when_the_only_one_has_died(rules: Rules) -> None:
    rules(queue_without_worker=AT_ONCE)
    worker = WorkerFactory.create(queues=["*"])
    JobFactory.create()
    assert look().fired == []

    Worker.objects.filter(pk=worker.pk).update(heartbeat_at=ago(100))

    assert [incident.subject for incident in look().fired] == ["default"]


def test_a_worker_that_is_not_heard_of_any_more_is_named(rules: Rules) -> None:
    rules(worker_silent=AT_ONCE)
    WorkerFactory.create(worker_id="well")
    WorkerFactory.create(worker_id="gone", name="gone", heartbeat_at=ago(100), started_at=ago(900), busy=2)

    look()
    Worker.objects.filter(worker_id="gone").delete()  # as maintenance does after ten leases
    look()

    assert (only().subject, only().state) == ("gone", State.RESOLVED)
    assert only().text.startswith("worker gone on test (pid 1) has not been heard of for 1 min 40 s; it held 2 jobs")


def test_a_worker_in_whose_place_another_was_started_is_not_missed(rules: Rules) -> None:
    rules(worker_silent=AT_ONCE)
    WorkerFactory.create(worker_id="old", heartbeat_at=ago(100), started_at=ago(900))
    WorkerFactory.create(worker_id="new", started_at=ago(90))
    WorkerFactory.create(worker_id="elsewhere", hostname="b", heartbeat_at=ago(100), started_at=ago(900))

    assert [incident.subject for incident in look().fired] == ["elsewhere"]


def test_a_thousand_silent_workers_are_not_a_thousand_messages(rules: Rules) -> None:
    rules(worker_silent=AT_ONCE)
    for number in range(MOST_SUBJECTS + 5):
        WorkerFactory.create(worker_id=f"w{number}", name=f"w{number}", heartbeat_at=ago(100 + number))

    fired = look().fired

    assert len(fired) == MOST_SUBJECTS
    assert "w0" not in {incident.subject for incident in fired}
    assert (look().fired, look().resolved) == ([], [])

    for number in range(3):  # worse ones do not bring more messages either
        WorkerFactory.create(worker_id=f"x{number}", name=f"x{number}", heartbeat_at=ago(500))
    assert (look().fired, look().resolved) == ([], [])


def test_a_failure_rate_that_jumps_is_told_by_type(rules: Rules) -> None:
    rules(failure_rate={**AT_ONCE, "minimum_jobs": 20})
    for job_type, failed in (("mail.send", 12), ("shop.export", 2)):
        StatFactory.create(job_type=job_type, jobs=1_000, at=ago(7_200))
        StatFactory.create(job_type=job_type, jobs=20, outcome=Outcome.FAILED, at=ago(7_200))
        StatFactory.create(job_type=job_type, jobs=20 - failed)
        StatFactory.create(job_type=job_type, jobs=failed, outcome=Outcome.FAILED)
    StatFactory.create(job_type="rare", jobs=10, outcome=Outcome.FAILED)
    StatFactory.create(job_type="always", jobs=60, outcome=Outcome.FAILED, at=ago(7_200))
    StatFactory.create(job_type="always", jobs=60, outcome=Outcome.FAILED)

    look()

    assert (only().subject, only().value) == ("mail.send", pytest.approx(0.6 - 20 / 1020))
    assert only().text.startswith(
        "60 % of 20 attempts of mail.send failed within the last 15 min, 1.96 % in the day before"
    )


def test_a_budget_tells_at_80_and_at_100_per_cent(rules: Rules, settings: Settings) -> None:
    settings.JOBQUEUE = {
        **settings.JOBQUEUE,
        "BUDGETS": {"all": {"amount": "10", "unit": "USD", "per": "day", "at_limit": "alert"}},
    }
    rules(budget_80=AT_ONCE, budget_100=AT_ONCE)
    CostFactory.create(amount="7.99", at=StatementTimestamp())
    assert look().fired == []

    CostFactory.create(amount="0.01", at=StatementTimestamp())
    assert [(one.rule, one.subject) for one in look().fired] == [("budget_80", "all")]
    CostFactory.create(amount="2", at=StatementTimestamp())

    fired = look().fired
    assert [one.rule for one in fired] == ["budget_100"]
    assert fired[0].text.startswith("budget all: 10 of 10 USD are spent (100 %), until ")


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_that_somebody_holds_is_told_with_its_holder(
    rules: Rules, second_connection: SecondConnection
) -> None:
    """Case C104: the leading indicator, while claims are still as quick as ever."""
    rules(oldest_snapshot_sec={**AT_ONCE, "threshold": 0.2})
    second_connection.execute("SET application_name = 'forgotten psql'")
    second_connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    second_connection.execute("SELECT 1")

    until(lambda: look().fired, what="the alert")
    second_connection.execute("ROLLBACK")
    look()

    assert only().state == State.RESOLVED
    assert "by session 'forgotten psql' of " in only().text
    assert "idle in transaction, pid " in only().text
    assert "dead rows in jobqueue_job" in only().text


def test_a_queue_that_is_paused_for_long_is_told_unless_by_a_budget(rules: Rules) -> None:
    rules(queue_paused_sec=AT_ONCE)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_queue (name, paused_at, paused_by, reason)"
            " VALUES ('mail', now() - interval '2 days', 'ann', 'moving'),"
            " ('bulk', now() - interval '2 days', 'budget:day', ''), ('new', now(), 'ann', '')"
        )

    look()

    assert only().text.startswith("queue mail is paused for 2 d by ann (moving), until somebody resumes it")


def test_a_pause_of_all_queues_is_one_alert_with_jobs_and_without(rules: Rules) -> None:
    rules(queue_paused_sec=AT_ONCE)
    Queue.objects.create(name="*", paused_at=ago(2 * 86_400), paused_by="ann")

    look()
    for queue in ("mail", "bulk"):
        JobFactory.create(queue=queue)
    look()

    assert only().subject == "*"
    assert only().text.startswith("all queues are paused for 2 d by ann, until somebody resumes it")


def test_figures_that_cannot_be_read_for_long_are_a_trouble_themselves(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules(figures_unknown=AT_ONCE)
    monkeypatch.setattr(reading, "TOTAL", timedelta(0))

    look()

    assert "these figures cannot be read in time: cost_1h_usd, database.load" in only().text


def test_rules_that_nobody_has_time_to_read_are_unknown(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take a second: thirty of them on a busy server must not keep promote and reap waiting."""
    monkeypatch.setattr(alert_values, "ALL_READS_SECONDS", 0)
    rules(x={"counter": "sessions", "above": 1, **AT_ONCE})

    assert look().unknown == ["x"]


def test_the_least_of_all_workers_of_a_gauge(rules: Rules) -> None:
    rules(few_ports={"gauge": "proxy_ports_available_pct", "aggregate": "min", "below": 30, **AT_ONCE})
    for worker_id, percent in (("a", 80), ("b", 27)):
        gauge = {"name": "proxy_ports_available_pct", "labels": {}, "value": percent, "at_seconds_ago": 1}
        WorkerFactory.create(worker_id=worker_id, gauges=[gauge])

    look()
    assert (only().value, only().state) == (27, State.FIRING)
    assert only().text == ("min of proxy_ports_available_pct over the living workers is 27 (alert at ≤ 30)")
    Worker.objects.filter(worker_id="b").delete()
    look()

    assert (only().worst, only().state) == (27, State.RESOLVED)


def test_counts_over_a_window(rules: Rules) -> None:
    labels = {"end_reason": "block"}
    rules(
        blocked={"counter": "sessions", "labels": labels, "window_seconds": 21_600, "threshold": 1, **AT_ONCE},
        many_blocked={"counter": "sessions", "labels": labels, "window_seconds": 3_600, "threshold": 80, **AT_ONCE},
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_counter (at, name, labels, amount) VALUES"
            " (now() - interval '2 hours', 'sessions', %s, 90), (now(), 'sessions', %s, 5)",
            [json.dumps(labels), json.dumps({"end_reason": "done"})],
        )

    fired = look().fired

    assert [(incident.rule, incident.value) for incident in fired] == [("blocked", 90)]
    assert fired[0].text.startswith("sessions{end_reason=block} counted 90 within the last 6 h")


# Secrets


def test_an_alerts_text_shows_no_secret_of_an_error(rules: Rules, caplog: pytest.LogCaptureFixture) -> None:
    """Case C138."""
    rules(dead_1h=AT_ONCE)
    error = "refused: {'password': 'hunter2', 'nested': {'api_key': 'k9', 'Authorization': 'Bearer zz9'}}"
    JobFactory.create(status=Status.DEAD, last_error=error, error_class="ValueError")

    look()

    assert "the newest: ValueError: refused: {'password': '***'" in only().text
    assert not any(secret in only().text + caplog.text for secret in ("hunter2", "k9", "zz9"))
