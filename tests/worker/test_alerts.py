"""Alerts end to end: what real runs wrote, evaluated by real workers, heard by a real HTTP receiver."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from jobqueue.alerting import BUILT_IN
from jobqueue.models import Attempt, Incident, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.outbox.receiver import Answer, Receiver, receiver

from .kinds import Enqueue, Launch
from .launching import RunningWorker
from .waiting import holds_for, until

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = {"for_seconds": 0, "clear_for_seconds": 0, "cooldown_seconds": 0}
State = Incident.State


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def watching(launch: Launch, server: Receiver) -> Callable[..., RunningWorker]:
    """Return the function that starts a worker with one rule: watching("dead_1h", {...}); all others are off."""

    def start(*arguments: str, rules: dict[str, Any], **settings: Any) -> RunningWorker:
        alerts = {**dict.fromkeys(BUILT_IN), **rules}
        return launch(
            *arguments,
            ALERTS=alerts,
            ALERT_SECONDS=1,
            ALERT_WEBHOOKS=server.url(),
            WEBHOOK_ALLOW="127.0.0.0/8",
            ALERT_LINK="https://ops.example.org/admin/jobqueue",
            **settings,
        )

    return start


def told(server: Receiver) -> list[tuple[str, str, str]]:
    return [(each.json["type"], each.json["data"]["rule"], each.json["data"]["subject"]) for each in server.requests]


def test_a_handler_that_overruns_five_times_is_told_exactly_once_and_its_end_later(
    watching: Any, enqueue: Enqueue, server: Receiver
) -> None:
    """The way an operator hears of it: handler, limit, attempt rows, rule, incident, outbox, receiver."""
    rules = {"deadline_1h": {**AT_ONCE, "window_seconds": 12}}
    limits = {"probe.tidy_stop": {"duration": 0.3}}
    for _ in range(2):  # two workers take turns at looking, and tell once all the same
        watching(rules=rules, LIMITS=limits)
    for _ in range(4):
        enqueue("tidy_stop", seconds=30, _max_attempts=1)
    until(lambda: Attempt.objects.filter(outcome=Outcome.DEADLINE).count() == 4)
    holds_for(2.5, lambda: server.requests == [], what="four are not five")

    enqueue("tidy_stop", seconds=30, _max_attempts=1)
    until(lambda: server.requests, within=10, what="the firing message")
    until(lambda: len(server.requests) == 2, within=40, what="the resolved message")
    holds_for(3, lambda: len(server.requests) == 2, what="no third message")

    assert told(server) == [("alert.firing", "deadline_1h", ""), ("alert.resolved", "deadline_1h", "")]
    incident, data = Incident.objects.get(), server.requests[0].json["data"]
    assert (data["value"], data["threshold"], data["incident"]) == (5, 5, incident.pk)
    assert data["text"].startswith("5 attempts ran into their deadline within the last 12 s: probe.tidy_stop 5")
    assert data["link"] == f"https://ops.example.org/admin/jobqueue/incident/{incident.pk}/change/"
    assert (incident.state, incident.untold) == (State.RESOLVED, False)
    assert set(Job.objects.filter(queue="jobqueue").values_list("status", flat=True)) == {Status.DONE}


def test_the_alert_about_a_backlog_does_not_wait_behind_it(watching: Any, enqueue: Enqueue, server: Receiver) -> None:
    """Every slot is busy and a thousand jobs are due: the alert has a slot of its own."""
    watching("--processes", "1", rules={"oldest_pending_sec": {**AT_ONCE, "threshold": 2}}, SHUTDOWN_TIMEOUT=0.5)
    enqueue("sleep", seconds=60)
    until(lambda: Job.objects.filter(status=Status.RUNNING).exists())
    Job.objects.enqueue_many([("probe.ok", {})] * 1_000)

    until(lambda: server.requests, within=15, what="the message")

    assert told(server) == [("alert.firing", "oldest_pending_sec", "default")]
    assert Job.objects.filter(status=Status.PENDING, queue="default").count() == 1_000


@pytest.mark.faults
def test_a_message_that_is_not_accepted_comes_again_and_is_told_once(
    watching: Any, enqueue: Enqueue, server: Receiver
) -> None:
    server.answers(Answer(status=503, headers={"Retry-After": "1"}), Answer())
    watching(rules={"dead_1h": AT_ONCE})

    enqueue("boom", _max_attempts=1)
    until(lambda: len(server.requests) == 2, within=60, what="the second attempt")

    first, second = server.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.json == second.json
    # The sending itself never raises the alarm about dead letters, nor is it one of them.
    assert Incident.objects.get().worst == 1


def test_a_receiver_that_refuses_does_not_raise_alarms_about_itself(
    watching: Any, enqueue: Enqueue, server: Receiver
) -> None:
    server.answers(Answer(status=410))
    watching(rules={"dead_1h": AT_ONCE})

    enqueue("boom", _max_attempts=1)
    until(lambda: Job.objects.filter(job_type="jobqueue.webhook", status=Status.DEAD).exists(), within=15)
    holds_for(2.5, lambda: len(server.requests) == 1)

    assert Incident.objects.get().worst == 1


def test_a_worker_that_is_killed_is_missed(watching: Any, server: Receiver) -> None:
    """Case C144: the queue of the dead worker is named, too, since nobody else serves it."""
    lost = watching("--name", "lost", "--queues", "mail", rules={})
    watching("--queues", "default", rules={"worker_silent": AT_ONCE, "queue_without_worker": AT_ONCE})
    lost.kill_all()
    Job.objects.enqueue("probe.ok", {}, queue="mail")
    # A row that has been silent for half a minute: the test does not wait for it, the clock of the row is set back.
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_worker SET heartbeat_at = heartbeat_at - interval '40 s',"
            " started_at = started_at - interval '40 s' WHERE worker_id = %s",
            [lost.worker_id],
        )

    until(lambda: len(server.requests) == 2, within=15, what="both messages")

    assert sorted(told(server)) == [
        ("alert.firing", "queue_without_worker", "mail"),
        ("alert.firing", "worker_silent", lost.worker_id),
    ]


def test_gauges_and_counters_of_handlers_raise_alerts(watching: Any, enqueue: Enqueue, server: Receiver) -> None:
    rules = {
        "few_ports": {"gauge": "ports", "below": 30, **AT_ONCE},
        "blocked": {
            "counter": "sessions",
            "labels": {"end": "block"},
            "window_seconds": 3600,
            "threshold": 3,
            **AT_ONCE,
        },
    }
    watching(rules=rules)

    enqueue("measure", gauges=[["ports", 27, None]], counts=[["sessions", 2, {"end": "block"}]])
    until(lambda: server.requests, within=20, what="the gauge's message")
    enqueue("measure", gauges=[], counts=[["sessions", 1, {"end": "block"}], ["sessions", 9, {"end": "ok"}]])
    until(lambda: len(server.requests) == 2, within=20, what="the counter's message")

    assert told(server) == [("alert.firing", "few_ports", ""), ("alert.firing", "blocked", "")]
    assert [each.json["data"]["value"] for each in server.requests] == [27, 3]


def test_the_old_snapshot_is_told_before_the_claims_suffer(
    watching: Any, server: Receiver, second_connection: SecondConnection
) -> None:
    """Case C104: the alert comes while p95 of the waits has not doubled."""
    watching(rules={"oldest_snapshot_sec": {**AT_ONCE, "threshold": 3}})
    before = _p95_of_a_load()
    second_connection.execute("SET application_name = 'report of the year'")
    second_connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    second_connection.execute("SELECT count(*) FROM jobqueue_job")

    while not server.requests:
        during = _p95_of_a_load()

    data = server.requests[0].json["data"]
    assert (data["rule"], data["value"] >= 3) == ("oldest_snapshot_sec", True)
    assert "by session 'report of the year'" in data["text"]
    assert during < 2 * before + 0.5, "a machine that does other things, too"


def _p95_of_a_load() -> float:
    jobs = Job.objects.enqueue_many([("probe.ok", {})] * 300)
    ids = [job.pk for job in jobs if job is not None]
    until(lambda: not Job.objects.filter(pk__in=ids).exclude(status=Status.DONE).exists(), within=30)
    waits: list[float] = sorted(
        (done.claimed_at - done.run_after).total_seconds()
        for done in Job.objects.filter(pk__in=ids).only("claimed_at", "run_after")
    )
    return waits[int(len(waits) * 0.95)]


def test_the_database_away_stops_no_maintenance_and_alerts_go_on_afterwards(
    watching: Any, enqueue: Enqueue, server: Receiver
) -> None:
    worker = watching(rules={"dead_1h": AT_ONCE})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'jobqueue maintenance%'"
        )

    enqueue("boom", _max_attempts=1)
    until(lambda: server.requests, within=20, what="the message")

    assert worker.code is None


def test_all_of_it_uses_the_one_maintenance_connection(watching: Any, enqueue: Enqueue, server: Receiver) -> None:
    worker = watching(rules={"dead_1h": AT_ONCE})
    enqueue("boom", _max_attempts=1)
    until(lambda: server.requests, within=20, what="the message")

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobqueue%'"
        )
        roles = [name.split()[1] for (name,) in cursor.fetchall() if worker.worker_id in name]
    assert sorted(set(roles) - {"child"}) == sorted(role for role in roles if role != "child")
    assert {"dispatch", "lease", "listener", "maintenance", "settle"} == set(roles) - {"child"}
