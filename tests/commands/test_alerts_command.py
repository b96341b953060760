"""`manage.py jobqueue_alerts`: evaluates and sends by itself, at a real HTTP receiver, with and without a database."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.db import OperationalError, connection
from pytest_django import Settings

from jobqueue.alerting import BUILT_IN
from jobqueue.management import outages
from jobqueue.management.outages import Outage
from jobqueue.models import Incident, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago
from tests.outbox.receiver import Answer, Receiver, receiver

from .conftest import Ran

pytestmark = pytest.mark.django_db

Run = Callable[..., Ran]
State = Incident.State
AT_ONCE = {"for_seconds": 0, "clear_for_seconds": 0, "cooldown_seconds": 0}


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture(autouse=True)
def told(settings: Settings, server: Receiver) -> None:
    """Have one rule, and a webhook that hears of it."""
    settings.JOBQUEUE = {
        "ALERTS": {**dict.fromkeys(BUILT_IN), "dead_1h": AT_ONCE},
        "ALERT_WEBHOOKS": [server.url()],
        "ALERT_LINK": "https://ops.example.org/admin/jobqueue/",
        "WEBHOOK_ALLOW": ["127.0.0.1"],
        "WEBHOOK_HTTP": True,
    }


@pytest.fixture
def alerts(run: Run, tmp_path: Path) -> Run:
    """Return the function that runs the command with a state file of the test's own."""
    return lambda *options: run("jobqueue_alerts", "--state-file", str(tmp_path / "state.json"), *options)


def events(server: Receiver) -> list[str]:
    return [request.json["type"] for request in server.requests]


def test_a_quiet_queue_says_so(alerts: Run, server: Receiver) -> None:
    assert alerts() == Ran(0, "No alert fires.\n", "")
    assert server.requests == []


def test_an_alert_is_sent_at_once_without_a_worker_and_only_once(alerts: Run, server: Receiver) -> None:
    job = JobFactory.create(status=Status.DEAD, last_error="password=hunter2", error_class="ValueError")

    first, second = alerts(), alerts()

    incident = Incident.objects.get()
    (request,) = server.requests
    data = request.json["data"]
    assert (first.code, second.code, request.json["type"]) == (0, 0, "alert.firing")
    assert (data["rule"], data["state"], data["value"], data["threshold"]) == ("dead_1h", "firing", 1.0, 1.0)
    assert data["link"] == f"https://ops.example.org/admin/jobqueue/incident/{incident.pk}/change/"
    assert data["text"].startswith(
        "1 dead letter within the last 1 h: probe.ok 1; the newest: ValueError: password=***"
    )
    assert first.out == second.out == f"firing    dead_1h: {data['text']}\n"
    assert list(Job.objects.values_list("pk", flat=True)) == [job.pk]  # nothing went by the outbox
    assert (incident.untold, incident.fired_told_at is not None) == (False, True)


def test_the_end_is_sent_once_too(alerts: Run, server: Receiver) -> None:
    JobFactory.create(status=Status.DEAD)
    alerts()
    Job.objects.update(finished_at=ago(3_700))

    ended, after = alerts(), alerts()

    assert events(server) == ["alert.firing", "alert.resolved"]
    data = server.requests[1].json["data"]
    assert (data["state"], data["worst"], data["resolved_at"] is not None) == ("resolved", 1.0, True)
    assert data["text"].startswith("over after ")
    assert ended.out.startswith("resolved  dead_1h: 1 dead letter")
    assert after.out == "No alert fires.\n"


def test_a_chat_gets_the_message_as_it_takes_it(alerts: Run, server: Receiver, settings: Settings) -> None:
    hook = {"url": server.url(), "format": "slack"}
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_WEBHOOKS": [hook]}
    JobFactory.create(status=Status.DEAD, error_class="E", last_error="<!channel> & <https://x|y>")

    alerts()

    text = server.requests[0].json["text"]
    assert text.startswith("*[FIRING] jobqueue: dead_1h*\n1 dead letter within the last 1 h")
    assert "E: &lt;!channel&gt; &amp; &lt;https://x|y&gt;" in text
    assert text.endswith(f"incident/{Incident.objects.get().pk}/change/|Open the incident>")


def test_a_mail_goes_to_the_addresses(alerts: Run, settings: Settings, mailoutbox: list[EmailMessage]) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_WEBHOOKS": [], "ALERT_EMAILS": ["ops@example.org"]}
    settings.EMAIL_SUBJECT_PREFIX = "[shop] "
    JobFactory.create(status=Status.DEAD)

    alerts()

    (mail,) = mailoutbox
    assert (mail.to, mail.subject) == (["ops@example.org"], "[shop] [FIRING] jobqueue: dead_1h")
    assert str(mail.body).startswith("1 dead letter within the last 1 h: probe.ok 1")
    assert "https://ops.example.org/admin/jobqueue/incident/" in str(mail.body)


def test_a_target_that_fails_is_told_of_and_the_next_run_tries_again(alerts: Run, server: Receiver) -> None:
    server.answers(Answer(status=503), Answer())
    JobFactory.create(status=Status.DEAD)

    first, second, third = alerts(), alerts(), alerts()

    assert (first.code, second.code, third.code) == (3, 0, 0)
    assert len(server.requests) == 2
    assert not Incident.objects.get().untold


def test_of_two_targets_the_one_that_fails_gets_it_by_the_outbox(
    alerts: Run, server: Receiver, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_EMAILS": ["ops@example.org"]}
    server.answers(Answer(status=503))
    JobFactory.create(status=Status.DEAD)

    assert alerts().code == 3

    assert len(mailoutbox) == 1
    assert Job.objects.get(job_type="jobqueue.webhook").payload["event"] == "alert.firing"
    assert not Incident.objects.get().untold


def test_a_target_that_cannot_be_does_not_have_the_others_told_again(
    alerts: Run, server: Receiver, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    hook = {"url": server.url(), "secret": "gone"}
    settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERT_EMAILS": ["ops@example.org"], "ALERT_WEBHOOKS": [hook]}
    JobFactory.create(status=Status.DEAD)

    first, second = alerts(), alerts()

    assert (first.code, second.code, len(mailoutbox)) == (3, 0, 1)


def test_what_a_worker_is_about_to_send_is_left_to_it_for_a_while(alerts: Run, server: Receiver) -> None:
    WorkerFactory.create()
    Incident.objects.create(rule="x", state=State.FIRING, fired_at=StatementTimestamp(), untold=True)
    old = Incident.objects.create(rule="y", state=State.FIRING, fired_at=ago(40), untold=True)
    Incident.objects.filter(pk=old.pk).update(rule="dead_1h")
    JobFactory.create(status=Status.DEAD)

    alerts()

    # Rule x is gone, so its incident has ended in this run, which is told by this run.
    assert [request.json["data"]["rule"] for request in server.requests] == ["x", "x", "dead_1h"]


def test_without_a_living_worker_nothing_is_left_to_one(alerts: Run, server: Receiver, settings: Settings) -> None:
    Incident.objects.create(rule="dead_1h", state=State.FIRING, fired_at=StatementTimestamp(), untold=True)
    JobFactory.create(status=Status.DEAD)

    alerts()

    assert events(server) == ["alert.firing"]


def test_a_dry_run_prints_and_changes_nothing(alerts: Run, server: Receiver) -> None:
    JobFactory.create(status=Status.DEAD)

    ran = alerts("--dry-run")

    assert ran.out.startswith("firing    dead_1h: 1 dead letter")
    assert (server.requests, Incident.objects.count()) == ([], 0)


def test_json_has_all_of_it(alerts: Run) -> None:
    JobFactory.create(status=Status.DEAD)

    found = json.loads(alerts("--json").out)

    assert set(found) == {"at", "firing", "pending", "fired", "resolved", "unknown", "problems", "failures"}
    assert (found["fired"], found["firing"][0]["rule"], found["failures"]) == (found["firing"], "dead_1h", [])


def test_at_verbosity_0_it_prints_nothing(alerts: Run) -> None:
    JobFactory.create(status=Status.DEAD)

    assert alerts("--verbosity", "0").out == ""


def test_a_wrong_option_is_refused(alerts: Run) -> None:
    assert alerts("--patience", "soon").code != 0


# The database is away


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Have nobody listen where the database is said to be; call it to bring the database back."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings, before = connection.settings_dict, connection.settings_dict["PORT"]
    connection.close()
    settings["PORT"] = port

    def back() -> None:
        settings["PORT"] = before

    yield back
    back()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_told_once_and_so_is_its_return(
    alerts: Run, server: Receiver, no_database: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    ran = [alerts("--patience", "0") for _ in range(3)]
    assert [each.code for each in ran] == [1, 1, 1]
    assert ran[0].error.startswith("the database does not answer: ")
    assert "\n" not in ran[0].error
    assert "alert firing rule=database text=the jobs' database does not answer" in caplog.text

    no_database()
    back = [alerts() for _ in range(2)]

    assert [each.code for each in back] == [0, 0]
    assert events(server) == ["alert.firing", "alert.resolved"]
    assert [request.json["data"]["rule"] for request in server.requests] == ["database"] * 2


@pytest.mark.django_db(transaction=True)
def test_an_outage_that_nobody_could_be_told_of_is_told_by_the_next_run(
    alerts: Run, server: Receiver, no_database: Callable[[], None]
) -> None:
    server.answers(Answer(status=503), Answer())

    assert [alerts("--patience", "0").code for _ in range(3)] == [1, 1, 1]

    assert len(server.requests) == 2


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_soon_back_is_not_told_of(
    alerts: Run, server: Receiver, no_database: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobqueue.management.commands import jobqueue_alerts

    def come_back(_seconds: float) -> None:
        no_database()

    monkeypatch.setattr(f"{jobqueue_alerts.__name__}.time.sleep", come_back)

    assert alerts().code == 0
    assert server.requests == []


# Where an outage is remembered


def test_an_outage_is_remembered_and_forgotten(tmp_path: Path) -> None:
    path, outage = tmp_path / "state", Outage(outages.now(), told=True)

    outages.remember(path, outage)
    assert (outages.remembered(path), path.stat().st_mode & 0o777) == (outage, 0o600)
    outages.forget(path)

    assert outages.remembered(path) is None
    outages.forget(path)


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"since": 5, "told": true}'])
def test_a_file_that_cannot_be_read_is_no_outage(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text)

    assert outages.remembered(tmp_path / "state") is None


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    """The temp directory is everybody's."""
    target = tmp_path / "theirs"
    target.write_text("theirs")
    (tmp_path / "state").symlink_to(target)

    assert outages.remembered(tmp_path / "state") is None
    outages.remember(tmp_path / "state", Outage(outages.now(), told=False))

    assert target.read_text() == "theirs"
    assert not (tmp_path / "state").is_symlink()


def test_each_database_has_a_file_of_its_own() -> None:
    names: list[Any] = [outages.default_path({"HOST": "a", "NAME": name}) for name in ("x", "x", "y")]

    assert names[0] == names[1] != names[2]


def test_errors_of_the_rows_do_not_reach_the_caller_as_tracebacks(alerts: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobqueue.management.commands import jobqueue_alerts

    def broken(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(jobqueue_alerts, "evaluate", broken)

    assert alerts("--patience", "0").error == "the database does not answer: server closed the connection"
