"""jobqueue_queue: pause, resume, list; what is wrong is told before anything changes."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from jobqueue.models import Action, Queue
from jobqueue.ops.queues import paused_queues

from .conftest import Ran

Run = Callable[..., Ran]

pytestmark = pytest.mark.django_db


def test_a_queue_is_paused_listed_and_resumed(run: Run) -> None:
    paused = run("jobqueue_queue", "pause", "mail", "--reason", "the relay is down")
    listed = run("jobqueue_queue", "list")
    resumed = run("jobqueue_queue", "resume", "mail")

    assert (paused.code, listed.code, resumed.code) == (0, 0, 0)
    assert paused.out == listed.out
    assert listed.out.startswith("mail  paused since ")
    assert listed.out.rstrip().endswith("until somebody resumes it: the relay is down")
    assert resumed.out == "mail is resumed.\n"
    assert run("jobqueue_queue", "list").out == "No queue is paused.\n"
    assert [action.actor.split()[0] for action in Action.objects.all()] == ["jobqueue_queue"] * 2


def test_a_pause_can_have_an_end_by_duration_or_by_time(run: Run, settings: object) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"  # type: ignore[attr-defined]
    run("jobqueue_queue", "pause", "a", "--for", "2h")
    run("jobqueue_queue", "pause", "b", "--until", "2990-01-31T08:00")
    run("jobqueue_queue", "pause", "c", "--until", "2990-01-31T08:00+02:00")

    ends = {pause.name: pause.resumes_at for pause in paused_queues()}
    assert abs(ends["a"] - timezone.now() - timedelta(hours=2)) < timedelta(minutes=1)
    assert ends["b"] == datetime(2990, 1, 31, 8, tzinfo=ZoneInfo("Asia/Kolkata"))
    assert ends["c"] == datetime(2990, 1, 31, 6, tzinfo=ZoneInfo("UTC"))


def test_a_reason_does_not_steer_the_terminal(run: Run) -> None:
    run("jobqueue_queue", "pause", "mail", "--reason", "down\n\x1b[2J")

    assert run("jobqueue_queue", "list").out.endswith(": down\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[2J\n")


def test_the_list_is_json_for_programs(run: Run) -> None:
    run("jobqueue_queue", "pause", "*", "--for", "1d")
    run("jobqueue_queue", "pause", "mail")

    everything, mail = json.loads(run("jobqueue_queue", "list", "--json").out)

    assert (everything["name"], mail["name"]) == ("*", "mail")
    assert datetime.fromisoformat(everything["resumes_at"]) > timezone.now()
    assert (mail["resumes_at"], mail["reason"]) == (None, "")
    assert datetime.fromisoformat(mail["paused_at"]) <= timezone.now()


def test_resuming_what_is_not_paused_is_told_by_code_3(run: Run) -> None:
    ran = run("jobqueue_queue", "resume", "mail")

    assert (ran.code, ran.out) == (3, "mail was not paused by a pause of its own.\n")


def test_a_queue_that_stays_paused_with_all_others_is_told(run: Run) -> None:
    run("jobqueue_queue", "pause", "*", "--reason", "moving house")
    run("jobqueue_queue", "pause", "mail")

    ran = run("jobqueue_queue", "resume", "mail")

    assert ran.code == 0
    assert "It stays paused by the pause of all queues" in ran.out
    assert "moving house" in ran.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pause"], "pause which queue?"),
        (["list", "mail"], "list takes no name"),
        (["resume", "mail", "--for", "1h"], "--until and --for belong to pause"),
        (["pause", "mail", "--for", "1h", "--until", "2990-01-01T00:00"], "not both"),
        (["pause", "a b"], "is not allowed"),
        (["resume", "a b"], "is not allowed"),
        (["pause", "mail", "--until", "2020-01-01T00:00"], "in the future"),
        (["pause", "mail", "--for", "900000w"], "date value out of range"),
        (["pause", "mail", "--until", "tomorrow"], "is not a time"),
        (["pause", "mail", "--until", "2990-02-31T00:00"], "is not a time"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(run: Run, arguments: list[str], text: str) -> None:
    ran = run("jobqueue_queue", *arguments)

    assert ran.code != 0
    assert text in ran.error
    assert not Queue.objects.exists()
