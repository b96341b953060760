"""Muting alert rules, from the rules and from incidents: asked first, for a while, with a reason, and written down."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from jobqueue import operations
from jobqueue.models import Action, AlertRule, Incident

from .test_alerts import INCIDENTS, RULES, State, in_force, page_of, rows_of

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
MUTE, UNMUTE = reverse("admin:jobqueue_alertrule_mute"), reverse("admin:jobqueue_alertrule_unmute")


@pytest.fixture
def manager(client_of: ClientOf) -> Client:
    """Return the client of somebody who sees and manages alerts."""
    return client_of("view_incident", "manage_alert", username="ann")


@pytest.fixture
def reader(client_of: ClientOf) -> Client:
    """Return the client of somebody who only sees."""
    return client_of("view_incident", username="bob")


def muted_for(name: str) -> timedelta:
    until: datetime = in_force(name).muted_until
    return until - timezone.now()


def test_from_incidents_one_comes_to_the_page_that_asks_about_their_rules(manager: Client) -> None:
    incidents = [
        Incident.objects.create(rule=rule, subject=each, state=State.FIRING)
        for rule, each in (("dead_1h", "a"), ("dead_1h", "b"), ("stuck_running", ""))
    ]
    data = {"action": "mute", "index": 0, "select_across": 0, "_selected_action": [one.pk for one in incidents]}

    answer = manager.post(INCIDENTS, data)

    assert answer.headers["Location"] == f"{MUTE}?rule=dead_1h&rule=stuck_running"
    page = manager.get(answer.headers["Location"]).content.decode()
    assert ("dead_1h" in page, "stuck_running" in page, "for 1 hour: until" in page) == (True, True, True)
    assert AlertRule.objects.count() == 0


def test_muting_keeps_the_rules_quiet_and_is_written_down_with_its_reason(manager: Client, settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"dead_1h": 3, "stuck_running": None}}

    answer = manager.post(f"{MUTE}?rule=dead_1h&rule=stuck_running", {"until_choice": "hour", "reason": "deploy"})

    assert answer.headers["Location"] == RULES
    assert timedelta(minutes=59) < muted_for("dead_1h") <= timedelta(hours=1)
    assert (in_force("dead_1h").threshold, in_force("dead_1h").enabled) == (3, True)
    assert not in_force("stuck_running").enabled  # it is still switched off
    first = Action.objects.earliest("id")
    assert (first.actor, first.action, first.subject) == ("ann", "mute_alert", "alert:dead_1h")
    assert first.reason == "deploy"
    assert first.detail["muted_until"]["from"] is None
    page = manager.get(RULES).content.decode()
    assert "muted until" in rows_of(page)["dead_1h"]
    assert f"{UNMUTE}?rule=dead_1h" in page


@pytest.mark.parametrize(
    ("choice", "least", "most"),
    [("day", 23.9, 24), ("week", 24 * 7 - 0.1, 24 * 7), ("tomorrow", 8, 32)],
)
def test_a_rule_is_muted_for_as_long_as_was_chosen(manager: Client, choice: str, least: float, most: float) -> None:
    manager.post(f"{MUTE}?rule=dead_1h", {"until_choice": choice})

    assert timedelta(hours=least) <= muted_for("dead_1h") <= timedelta(hours=most)


def test_a_time_of_ones_own_is_of_the_zone_of_the_page(manager: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"

    manager.post(f"{MUTE}?rule=dead_1h", {"until_choice": "time", "until_time": "2099-05-01T12:00"})

    assert in_force("dead_1h").muted_until == datetime(2099, 5, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"until_choice": "time"}, "Say until when."),
        ({"until_choice": "time", "until_time": "2001-01-01T00:00"}, "It must be in the future."),
        ({"until_choice": "hour", "until_time": "2099-01-01T00:00"}, "A time is given below"),
        ({}, "This field is required."),
        ({"until_choice": "hour", "reason": "x" * 501}, "at most 500 characters"),
    ],
)
def test_what_cannot_be_is_told_and_mutes_nothing(manager: Client, data: dict[str, str], words: str) -> None:
    answer = manager.post(f"{MUTE}?rule=dead_1h", data)

    assert (answer.status_code, words in answer.content.decode()) == (200, True)
    assert AlertRule.objects.count() == 0


def test_a_rule_is_heard_again_with_a_reason(manager: Client) -> None:
    operations.mute_alert("dead_1h", until=timezone.now() + timedelta(hours=1), actor="script")

    assert manager.get(f"{UNMUTE}?rule=dead_1h").status_code == 200
    assert in_force("dead_1h").muted_until is not None
    manager.post(f"{UNMUTE}?rule=dead_1h", {"reason": "mended"})

    assert in_force("dead_1h").muted_until is None
    action = Action.objects.latest("id")
    assert (action.actor, action.action, action.reason) == ("ann", "unmute_alert", "mended")
    assert action.detail["muted_until"]["to"] is None


def test_what_people_did_about_a_rule_is_on_its_page_for_whoever_reads_the_audit(client_of: ClientOf) -> None:
    operations.mute_alert("dead_1h", until=timezone.now() + timedelta(hours=1), actor="zoe", reason="deploy of 4.2")
    incident = Incident.objects.create(rule="dead_1h", state=State.FIRING)
    auditor = client_of("view_incident", "view_audit", username="auditor")
    urls = [page_of("dead_1h"), reverse("admin:jobqueue_incident_change", args=[incident.pk])]

    for url in urls:
        assert "deploy of 4.2" in auditor.get(url).content.decode()
    reader = client_of("view_incident", username="someone")
    for url in urls:
        assert "deploy of 4.2" not in reader.get(url).content.decode()


def test_a_rule_that_does_not_exist_is_not_muted(manager: Client) -> None:
    answer = manager.post(f"{MUTE}?rule=nothing", {"until_choice": "hour"}, follow=True)

    assert "There is no such rule." in answer.content.decode()
    assert AlertRule.objects.count() == 0


def test_a_reader_sees_no_button_and_mutes_nothing(reader: Client) -> None:
    incident = Incident.objects.create(rule="dead_1h", state=State.FIRING)
    data = {"action": "mute", "index": 0, "select_across": 0, "_selected_action": [incident.pk]}

    pages = [reader.get(url).content.decode() for url in (RULES, INCIDENTS, page_of("dead_1h"))]

    assert not any("Mute " in page or "/mute/" in page for page in pages)
    assert reader.post(INCIDENTS, data).status_code == 403
    for url in (MUTE, UNMUTE):
        assert reader.get(f"{url}?rule=dead_1h").status_code == 403
        assert reader.post(f"{url}?rule=dead_1h", {"until_choice": "hour"}).status_code == 403
    assert AlertRule.objects.count() == 0


def test_code_mutes_with_an_aware_time_only() -> None:
    with pytest.raises(ValueError, match="aware"):
        operations.mute_alert("dead_1h", until=datetime(2099, 1, 1), actor="script")
    assert not operations.mute_alert("dead_1h", until=None, actor="script")
    assert Action.objects.count() == 0
