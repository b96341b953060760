"""Alerts in the admin: rules in force, changed with a permission and written down; incidents, and muting them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from jobqueue import operations
from jobqueue.models import Action, AlertRule, Incident
from jobqueue.ops.alert_rules import rules_in_force

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
RULES = reverse("admin:jobqueue_alertrule_changelist")
INCIDENTS = reverse("admin:jobqueue_incident_changelist")
State = Incident.State


def page_of(rule: str) -> str:
    return reverse("admin:jobqueue_alertrule_change", args=[rule])


@pytest.fixture
def manager(client_of: ClientOf) -> Client:
    """Return the client of somebody who sees and manages alerts."""
    return client_of("view_incident", "manage_alert", username="ann")


@pytest.fixture
def reader(client_of: ClientOf) -> Client:
    """Return the client of somebody who only sees."""
    return client_of("view_incident", username="bob")


def in_force(name: str) -> Any:
    return next(each.rule for each in rules_in_force("default") if each.rule.name == name)


def fill(**values: Any) -> dict[str, Any]:
    """Return the form as a browser sends it."""
    return {"enabled": "on", "definition": "null", **values}


# Rules


def test_the_page_shows_the_rules_in_force_and_what_fires(reader: Client, settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"deadline_1h": 7, "few_ports": {"gauge": "ports", "below": 30}, "dead_1h": None}}
    Incident.objects.create(rule="few_ports", state=State.FIRING)

    page = reader.get(RULES).content.decode()

    rows = {row.split("</a>")[0].rpartition(">")[2]: row for row in page.split('<tr><th scope="row">')[1:]}
    assert ("≥ 7" in rows["deadline_1h"], "settings" in rows["deadline_1h"]) == (True, True)
    assert ("≤ 30" in rows["few_ports"], ">1</td>" in rows["few_ports"]) == (True, True)
    assert ">off</td>" in rows["dead_1h"]
    assert "built in" in rows["stuck_running"]


def test_a_rule_nobody_has_changed_has_a_page_and_is_changed_there(manager: Client) -> None:
    assert manager.get(page_of("deadline_1h")).status_code == 200

    answer = manager.post(page_of("deadline_1h"), fill(threshold="12", reason="too many on Mondays"))

    assert answer.status_code == 302
    assert (in_force("deadline_1h").threshold, AlertRule.objects.count()) == (12, 1)
    action = Action.objects.get()
    assert (action.actor, action.action, action.subject) == ("ann", "change_alert", "alert:deadline_1h")
    assert action.reason == "too many on Mondays; threshold: None → 12.0"


def test_a_rule_is_switched_off_and_given_back_to_the_settings(manager: Client) -> None:
    manager.post(page_of("deadline_1h"), {"definition": "null"})
    assert not in_force("deadline_1h").enabled

    manager.post(page_of("deadline_1h"), fill())

    assert (in_force("deadline_1h").enabled, in_force("deadline_1h").threshold) == (True, 5)
    assert [action.reason for action in Action.objects.order_by("id")] == [
        "enabled: True → False",
        "enabled: False → True",
    ]


def test_saving_without_a_change_leaves_no_trace(manager: Client) -> None:
    manager.post(page_of("deadline_1h"), fill(threshold="12"))
    manager.post(page_of("deadline_1h"), fill(threshold="12"))

    assert Action.objects.count() == 1


def test_a_rule_of_peoples_own_is_added_by_its_definition(manager: Client) -> None:
    definition = '{"counter": "sessions", "labels": {"end_reason": "block"}, "window_seconds": 21600, "threshold": 1}'

    answer = manager.post(reverse("admin:jobqueue_alertrule_add"), fill(name="blocked", definition=definition))

    assert answer.status_code == 302
    assert (in_force("blocked").source, in_force("blocked").window_seconds) == ("counter", 21_600)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "x", "definition": '{"gauge": "x"}'}, "needs one of threshold, above and below"),
        ({"name": "No", "definition": '{"gauge": "x", "below": 1}'}, "lower-case letters"),
        ({"name": "x", "definition": "{"}, "Enter a valid JSON."),
        ({"name": "x", "definition": '{"gauge": "x", "below": 1}', "for_seconds": "-1"}, "It must be from 0 on."),
        ({"name": "x", "definition": "null"}, "needs a definition"),
    ],
)
def test_what_would_be_no_rule_is_refused_with_the_reason(manager: Client, values: dict[str, str], words: str) -> None:
    answer = manager.post(reverse("admin:jobqueue_alertrule_add"), fill(**values))

    assert (answer.status_code, words in answer.content.decode()) == (200, True)
    assert AlertRule.objects.count() == 0


def test_a_rule_that_does_not_exist_has_no_page(manager: Client) -> None:
    assert manager.get(page_of("nothing")).status_code == 302  # to the index, as everywhere in the admin


def test_a_reader_changes_nothing(reader: Client, client_of: ClientOf) -> None:
    assert reader.post(page_of("deadline_1h"), fill(threshold="12")).status_code == 403
    assert reader.get(reverse("admin:jobqueue_alertrule_add")).status_code == 403
    assert client_of("view_job", username="other").get(RULES).status_code == 403
    assert AlertRule.objects.count() == 0

    with pytest.raises(PermissionDenied):
        operations.change_alert("deadline_1h", actor=_user("bob"), threshold=9)


def _user(name: str) -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(username=name)


def test_code_is_refused_what_would_be_no_rule() -> None:
    with pytest.raises(ValueError, match="needs a definition"):
        operations.change_alert("nothing", actor="shell", threshold=1)
    with pytest.raises(ValueError, match="threshold must be a number"):
        operations.change_alert("deadline_1h", actor="shell", threshold="many")

    assert AlertRule.objects.count() == 0


# Incidents


def test_incidents_are_shown_newest_first_with_their_numbers(reader: Client) -> None:
    old = Incident.objects.create(
        rule="dead_1h", state=State.RESOLVED, broken_since=timezone.now() - timedelta(hours=3), text="<b>old</b>"
    )
    Incident.objects.create(rule="oldest_pending_sec", subject="mail", state=State.FIRING, value=412.5, text="new")

    page = reader.get(INCIDENTS).content.decode()
    single = reader.get(reverse("admin:jobqueue_incident_change", args=[old.pk])).content.decode()

    assert page.index("oldest_pending_sec") < page.index("dead_1h")
    assert ("412.50" in page, "&lt;b&gt;old&lt;/b&gt;" in page, "<b>old</b>" in page + single) == (True, True, False)
    assert f'href="{page_of("dead_1h")}"' in single


def test_an_incident_is_not_changed_by_anybody(manager: Client) -> None:
    incident = Incident.objects.create(rule="dead_1h", state=State.FIRING)

    answer = manager.post(reverse("admin:jobqueue_incident_change", args=[incident.pk]), {"state": 3})

    assert answer.status_code == 403
    assert manager.post(reverse("admin:jobqueue_incident_delete", args=[incident.pk])).status_code == 403


def act(client: Client, action: str, *incidents: Incident) -> int:
    data = {"action": action, "index": 0, "select_across": 0, "_selected_action": [one.pk for one in incidents]}
    return client.post(INCIDENTS, data).status_code


def test_muting_keeps_the_rule_quiet_and_is_written_down(manager: Client, settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"dead_1h": 3}}
    incidents = [Incident.objects.create(rule="dead_1h", subject=each, state=State.FIRING) for each in "ab"]

    assert act(manager, "mute_for_an_hour", *incidents) == 302

    rule = in_force("dead_1h")
    assert timedelta(minutes=59) < rule.muted_until - timezone.now() <= timedelta(hours=1)
    assert (rule.threshold, rule.enabled) == (3, True)
    assert (Action.objects.get().actor, Action.objects.get().subject) == ("ann", "alert:dead_1h")


def test_a_reader_mutes_nothing(reader: Client) -> None:
    incident = Incident.objects.create(rule="dead_1h", state=State.FIRING)

    act(reader, "mute_for_a_day", incident)

    assert AlertRule.objects.count() == 0
