"""Alerts in the admin: rules in force, changed with a permission and written down; incidents, and muting them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from jobqueue import operations
from jobqueue.alerting import BUILT_IN
from jobqueue.maintenance.alerts import evaluate
from jobqueue.models import Action, AlertRule, Incident, Tick
from jobqueue.ops.alert_rules import rules_in_force
from tests.factories import JobFactory, ago

from .conftest import asked_of_tables

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


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the table of rules by the rule's name."""
    return {row.split("</a>")[0].rpartition(">")[2]: row for row in page.split('<tr><th scope="row">')[1:]}


# Rules


def test_the_page_shows_the_rules_in_force_and_what_fires(reader: Client, settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"deadline_1h": 7, "few_ports": {"gauge": "ports", "below": 30}, "dead_1h": None}}
    Incident.objects.create(rule="few_ports", state=State.FIRING)

    page = reader.get(RULES).content.decode()

    rows = rows_of(page)
    assert ("≥ 7" in rows["deadline_1h"], "settings" in rows["deadline_1h"]) == (True, True)
    assert ("≤ 30" in rows["few_ports"], ">1</a></td>" in rows["few_ports"]) == (True, True)
    assert ">off</td>" in rows["dead_1h"]
    assert "built in" in rows["stuck_running"]


def test_rules_that_fire_come_first_then_pending_and_unknown_ones(reader: Client, settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"deadline_1h": None}}
    Incident.objects.create(rule="worker_silent", subject="w", state=State.FIRING)
    Incident.objects.create(rule="stuck_running", state=State.PENDING)
    seen = {name: {"value": 0.5, "subject": ""} for name in BUILT_IN} | {"failure_rate": None}
    Tick.objects.create(name="alerts", seen=seen)

    order = list(rows_of(reader.get(RULES).content.decode()))

    assert order[:3] == ["worker_silent", "stuck_running", "failure_rate"]
    assert order[-1] == "deadline_1h"


def test_the_page_shows_what_the_workers_saw_when_they_last_looked(reader: Client) -> None:
    JobFactory.create_batch(3, queue="mail", run_after=ago(400))
    evaluate("default")

    row = rows_of(reader.get(RULES).content.decode())["oldest_pending_sec"]

    assert '<td class="jobqueue-number">40' in row
    assert "mail" in row
    assert ">firing</span>" in row


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "Nobody has looked at these rules yet"), (90, "Nobody has looked at these rules for 1 min 30 s")],
)
def test_where_nobody_looks_that_is_said_and_values_are_unknown(
    reader: Client, seconds: int | None, words: str
) -> None:
    if seconds is not None:
        Tick.objects.create(name="alerts", at=ago(seconds), seen={"dead_1h": {"value": 7, "subject": ""}})

    page = reader.get(RULES).content.decode()

    assert words in page
    assert ">unknown</span>" in rows_of(page)["dead_1h"]
    assert '<td class="jobqueue-number">7</td>' not in page


def test_the_live_part_is_the_table_alone_and_needs_the_permission(reader: Client, client_of: ClientOf) -> None:
    stranger = client_of("view_job", username="carl")
    for name in ("alertrule", "incident"):
        url = reverse(f"admin:jobqueue_{name}_part")
        answer = reader.get(url)
        assert (answer.status_code, "<html" in answer.content.decode()) == (200, False)
        assert stranger.get(url).status_code == 403


def test_the_pages_take_few_queries(manager: Client) -> None:
    for number in range(30):
        Incident.objects.create(rule="worker_silent", subject=str(number), state=State.FIRING)

    for url in (RULES, INCIDENTS, page_of("worker_silent")):
        with CaptureQueriesContext(connection) as captured:
            assert manager.get(url).status_code == 200
        assert len(asked_of_tables(captured)) <= 15, url


def test_a_rule_nobody_has_changed_has_a_page_and_is_changed_there(manager: Client) -> None:
    assert manager.get(page_of("deadline_1h")).status_code == 200

    answer = manager.post(page_of("deadline_1h"), fill(threshold="12", reason="too many on Mondays"))

    assert answer.status_code == 302
    assert (in_force("deadline_1h").threshold, AlertRule.objects.count()) == (12, 1)
    action = Action.objects.get()
    assert (action.actor, action.action, action.subject) == ("ann", "change_alert", "alert:deadline_1h")
    assert (action.reason, action.detail) == ("too many on Mondays", {"threshold": {"from": None, "to": 12.0}})


def test_a_rule_is_switched_off_and_given_back_to_the_settings(manager: Client) -> None:
    manager.post(page_of("deadline_1h"), {"definition": "null"})
    assert not in_force("deadline_1h").enabled

    manager.post(page_of("deadline_1h"), fill())

    assert (in_force("deadline_1h").enabled, in_force("deadline_1h").threshold) == (True, 5)
    assert [action.detail for action in Action.objects.order_by("id")] == [
        {"enabled": {"from": True, "to": False}},
        {"enabled": {"from": False, "to": True}},
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


def test_what_fires_stands_above_what_is_newer_with_how_long_it_lasts(reader: Client) -> None:
    Incident.objects.create(rule="dead_1h", state=State.RESOLVED, text="over")
    Incident.objects.create(rule="stuck_running", state=State.FIRING, broken_since=ago(7200), text="lasting", value=3)

    page = reader.get(INCIDENTS).content.decode()

    assert page.index("lasting") < page.index("over")
    assert "2 h 0 min" in page


def test_incidents_are_chosen_by_rule_also_by_one_that_is_gone_without_a_look_at_every_row(reader: Client) -> None:
    for rule in ("dead_1h", "gone"):
        Incident.objects.create(rule=rule, state=State.RESOLVED)

    with CaptureQueriesContext(connection) as captured:
        answer = reader.get(INCIDENTS, {"rule": "gone"})

    assert [row.rule for row in answer.context["cl"].result_list] == ["gone"]
    assert "?rule=dead_1h" in answer.content.decode()
    assert not any("DISTINCT" in query["sql"] for query in captured)


def test_a_page_without_incidents_teaches(reader: Client) -> None:
    page = reader.get(INCIDENTS).content.decode()

    assert ("Nothing fires" in page, "No alert has fired yet" in page) == (True, True)


def test_an_incident_tells_its_course(reader: Client) -> None:
    begin = datetime(2026, 5, 1, 12, tzinfo=UTC)
    incident = Incident.objects.create(
        rule="dead_1h",
        state=State.RESOLVED,
        broken_since=begin,
        fired_at=begin + timedelta(minutes=1),
        fired_told_at=begin + timedelta(minutes=2),
        calm_since=begin + timedelta(hours=1),
        resolved_at=begin + timedelta(hours=1, minutes=1),
    )

    page = reader.get(reverse("admin:jobqueue_incident_change", args=[incident.pk])).content.decode()

    steps = page.split('<ol class="jobqueue-course">')[1].split("</ol>")[0]
    words = ["was broken", "the alert fired", "was told", "good again", "It was over"]
    assert sorted(words, key=steps.index) == words
    assert "after 1 h 1 min" in steps
    assert "2026-05-01 12:01:00" in steps
