"""Alert rules: what they may say, and which of the four layers has the last word."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue.alerting import BUILT_IN, TAKEN, Rule, make_rule, number
from jobqueue.conf import JobQueueSettings
from jobqueue.exceptions import ConfigurationError
from jobqueue.models import AlertRule
from jobqueue.ops.alert_rules import Layered, environment_problems, layered, variable

PORTS = {"gauge": "proxy_ports_available_pct", "aggregate": "min", "below": 30}
BLOCKS = {"counter": "sessions", "labels": {"end_reason": "block"}, "window_seconds": 21_600, "threshold": 1}


def found(name: str, *rows: AlertRule, environment: Mapping[str, str] | None = None) -> Layered:
    return next(each for each in layered(rows, environment or {}) if each.rule.name == name)


# What a rule says


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        *(("deadline_1h", 5), ("cost_1h_usd", 1.0), ("dead_1h", 1), ("stuck_running", 1), ("oldest_pending_sec", 300)),
        *(("oldest_snapshot_sec", 600), ("budget_80", 80), ("budget_100", 100), ("worker_silent", 30)),
    ],
)
def test_the_built_in_rules_have_the_thresholds_that_are_promised(name: str, threshold: float) -> None:
    rule = make_rule(name)

    assert (rule.threshold, rule.below, rule.enabled) == (threshold, False, True)


def test_every_built_in_rule_can_be_made() -> None:
    assert {make_rule(name).source for name in BUILT_IN} == set(BUILT_IN)


def test_the_template_of_a_gauge_is_broken_from_above() -> None:
    rule = make_rule("few_ports", PORTS)

    assert (rule.source, rule.series, rule.aggregate, rule.below) == ("gauge", "proxy_ports_available_pct", "min", True)
    assert [rule.is_broken(value) for value in (31, 30, 29)] == [False, True, True]


def test_the_template_of_a_counter_has_labels_and_a_window() -> None:
    rule = make_rule("blocked", BLOCKS)

    assert (rule.source, rule.series, rule.labels) == ("counter", "sessions", {"end_reason": "block"})
    assert rule.window_seconds == 21_600
    assert [rule.is_broken(value) for value in (0, 1, 80)] == [False, True, True]


@pytest.mark.parametrize(
    ("options", "calm"),
    [
        ({"threshold": 10}, {9.9: True, 10: False}),
        ({"threshold": 10, "clear_threshold": 8}, {7.9: True, 8: False, 9: False, 10: False}),
        ({"below": 30}, {30: False, 30.1: True}),
        ({"below": 30, "clear_threshold": 40}, {30: False, 35: False, 40: False, 40.1: True}),
    ],
)
def test_a_rule_is_calm_only_past_its_clear_threshold(options: dict[str, Any], calm: dict[float, bool]) -> None:
    rule = make_rule("x", {"gauge": "x", **options})

    assert {value: rule.is_calm(value) for value in calm} == calm


def test_a_built_in_rule_of_a_measure_has_hysteresis_of_its_own() -> None:
    rule = make_rule("oldest_pending_sec", 100)

    assert [rule.is_calm(value) for value in (79, 80, 99)] == [True, False, False]


@pytest.mark.parametrize(("value", "shown"), [(5.0, "5"), (0.1234, "0.123"), (1e300, "1e+300"), (math.nan, "nan")])
def test_any_number_can_be_put_in_words(value: float, shown: str) -> None:
    """An error here would end all workers."""
    assert number(value) == shown


def test_one_queue_may_have_another_threshold_or_none() -> None:
    rule = make_rule("oldest_pending_sec", {"subjects": {"mail": 60, "bulk": None}})

    mail, other = rule.for_subject("mail"), rule.for_subject("default")
    assert mail is not None
    assert other is not None
    assert (mail.threshold, rule.for_subject("bulk"), other.threshold) == (60, None, 300)


@pytest.mark.parametrize(
    ("name", "definition", "words"),
    [
        ("Deadline", 5, "lower-case letters"),
        ("no way", 5, "lower-case letters"),
        ("link", {"gauge": "x", "above": 1}, "not emails, link, s, seconds, webhooks"),
        ("unknown", 5, "needs either gauge or counter"),
        ("deadline_1h", "5", "threshold must be a number, not '5'"),
        ("deadline_1h", True, "threshold must be a number, not True"),
        ("deadline_1h", float("nan"), "threshold must be a number, not nan"),
        ("deadline_1h", 10**400, "threshold must be a number, not 1000"),
        ("x", {"gauge": "x", "below": 30, "clear_ratio": 0}, "clear_ratio must be above 0"),
        ("deadline_1h", {"treshold": 5}, "unknown option treshold; known are"),
        ("deadline_1h", {"gauge": "x"}, "is built in, it cannot be of a gauge"),
        ("deadline_1h", {"for_seconds": -1}, "for_seconds must be from 0"),
        ("deadline_1h", {"window_seconds": 0}, "window_seconds must be above 0"),
        ("deadline_1h", {"enabled": 1}, "enabled must be True or False"),
        ("deadline_1h", {"subjects": ["mail"]}, "subjects must be a dict"),
        ("deadline_1h", {"subjects": {"mail": "5"}}, "subjects: mail must be a number"),
        ("x", {"gauge": "x"}, "needs one of threshold, above and below"),
        ("x", {"gauge": "x", "above": 1, "below": 2}, "needs one of threshold, above and below"),
        ("x", {"gauge": "x-y", "above": 1}, "gauge must be the name of one"),
        ("x", {"gauge": "x", "counter": "x", "above": 1}, "needs either gauge or counter"),
        ("x", {"gauge": "x", "above": 1, "aggregate": "median"}, "aggregate must be one of min, max, sum, avg"),
        ("x", {"gauge": "x", "above": 1, "window_seconds": 5}, "unknown option window_seconds"),
        ("x", {"counter": "x", "above": 1, "labels": {"a": 1}}, "labels must be a dict of texts"),
        ("failure_rate", {"minimum_jobs": 2.5}, "minimum_jobs must be a whole number"),
    ],
)
def test_a_definition_that_cannot_be_is_refused_with_the_reason(name: str, definition: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"JOBQUEUE\['ALERTS'\].*{words}"):
        JobQueueSettings().changed(ALERTS={name: definition})


def test_no_rule_has_a_name_whose_variable_is_a_setting() -> None:
    settings = {name.removeprefix("ALERT").strip("_").lower() for name in JobQueueSettings.__slots__ if "ALERT" in name}

    assert settings - {""} <= TAKEN


# The layers


def test_the_settings_stand_above_what_is_built_in(settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"deadline_1h": 7, "dead_1h": None, "few_ports": PORTS}}

    assert (found("deadline_1h").rule.threshold, found("deadline_1h").layer) == (7, "settings")
    assert not found("dead_1h").rule.enabled
    assert found("few_ports").rule.below
    assert found("stuck_running").layer == "built in"


def test_the_environment_stands_above_the_settings(settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"deadline_1h": {"threshold": 7, "for_seconds": 9}, "few_ports": PORTS}}
    environment = {"JOBQUEUE_ALERT_DEADLINE_1H": "10", "JOBQUEUE_ALERT_FEW_PORTS": "5.5"}

    rule = found("deadline_1h", environment=environment).rule
    ports = found("few_ports", environment=environment).rule

    assert (rule.threshold, rule.for_seconds) == (10, 9)
    assert (ports.threshold, ports.below) == (5.5, True)


def test_the_environment_switches_on_again_what_the_settings_switched_off(settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERTS": {"dead_1h": None}}

    assert found("dead_1h", environment={"JOBQUEUE_ALERT_DEAD_1H": "3"}).rule == make_rule("dead_1h", 3)


@pytest.mark.parametrize("text", ["", " ", "off", "OFF", "none"])
def test_the_environment_switches_off(text: str) -> None:
    layer = found("dead_1h", environment={"JOBQUEUE_ALERT_DEAD_1H": text})

    assert (layer.rule.enabled, layer.layer) == (False, "environment")


def test_the_admin_has_the_last_word() -> None:
    row = AlertRule(name="deadline_1h", threshold=12, for_seconds=3, cooldown_seconds=0)

    layer = found("deadline_1h", row, environment={"JOBQUEUE_ALERT_DEADLINE_1H": "10"})

    assert (layer.rule.threshold, layer.rule.for_seconds, layer.rule.cooldown_seconds) == (12, 3, 0)
    assert layer.layer == "admin"


def test_the_admin_switches_off() -> None:
    layer = found("deadline_1h", AlertRule(name="deadline_1h", enabled=False, threshold=3))

    assert not layer.rule.enabled


def test_a_row_that_only_mutes_leaves_the_threshold_of_the_lower_layers() -> None:
    layer = found("deadline_1h", AlertRule(name="deadline_1h"), environment={"JOBQUEUE_ALERT_DEADLINE_1H": "10"})

    assert layer.rule.threshold == 10


def test_a_rule_may_live_in_the_admin_alone() -> None:
    rule = found("few_ports", AlertRule(name="few_ports", definition=PORTS, threshold=20)).rule

    assert (rule.source, rule.threshold, rule.below) == ("gauge", 20, True)


# What is wrong is left out and told, the rest goes on


@pytest.mark.parametrize(
    ("environment", "problem"),
    [("many", "JOBQUEUE_ALERT_DEADLINE_1H='many' is not a number"), ("nan", "environment: deadline_1h: threshold")],
)
def test_a_variable_that_is_no_number_leaves_the_layer_below(environment: str, problem: str) -> None:
    layer = found("deadline_1h", environment={"JOBQUEUE_ALERT_DEADLINE_1H": environment})

    assert (layer.rule.threshold, layer.rule.enabled, layer.layer) == (5, True, "built in")
    assert layer.problems[0].startswith(problem)


@pytest.mark.parametrize(
    "definition", [{}, [], "x", {"gauge": 1}, {"gauge": "x", "below": "y"}, {"gauge": "x", "below": 10**400}]
)
def test_a_row_that_somebody_wrote_by_hand_stops_no_other_rule(definition: Any) -> None:
    layers = layered([AlertRule(name="mine", definition=definition)], {})

    mine = next(layer for layer in layers if layer.rule.name == "mine")
    assert (mine.rule.enabled, len(mine.problems) > 0) == (False, True)
    assert len(layers) == len(BUILT_IN) + 1


def test_a_variable_that_cannot_be_read_is_told_by_the_system_checks() -> None:
    assert environment_problems({variable("dead_1h"): "x", variable("stuck_running"): "4"}) == [
        "JOBQUEUE_ALERT_DEAD_1H='x' is not a number; empty or off switches the rule off"
    ]


def test_a_rule_without_muting_says_so() -> None:
    assert Rule(name="x", source="gauge", threshold=1).muted_until is None


# Where alerts go


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("https://a.example/x", {"url": "https://a.example/x", "format": "json", "secret": None}),
        ("https://hooks.slack.com/services/x", {"url": "https://hooks.slack.com/services/x", "format": "slack"}),
        ({"url": "https://b.example", "format": "slack"}, {"format": "slack"}),
        ({"url": "https://b.example", "secret": "ops"}, {"format": "json", "secret": "ops"}),
    ],
)
def test_a_webhook_is_an_address_or_a_dict(given: Any, made: dict[str, Any]) -> None:
    (hook,) = JobQueueSettings().changed(ALERT_WEBHOOKS=[given]).ALERT_WEBHOOKS

    assert isinstance(hook, Mapping)
    assert {**hook, **made} == hook


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ALERT_WEBHOOKS", ["ftp://x"]),
        ("ALERT_WEBHOOKS", "https://a.example"),
        ("ALERT_WEBHOOKS", [{"format": "json"}]),
        ("ALERT_WEBHOOKS", [{"url": "https://a.example", "format": "xml"}]),
        ("ALERT_WEBHOOKS", [{"url": "https://a.example", "token": "x"}]),
        ("ALERT_WEBHOOKS", [7]),
        ("ALERT_EMAILS", ["ann"]),
        ("ALERT_EMAILS", "ann@example.org"),
        ("ALERT_LINK", "ops.example.org"),
        ("ALERTS", ["deadline_1h"]),
    ],
)
def test_targets_that_cannot_be_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        JobQueueSettings().changed(**{setting: value})


def test_the_address_of_a_chats_hook_is_not_shown_with_the_settings() -> None:
    settings = JobQueueSettings().changed(ALERT_WEBHOOKS=["https://hooks.slack.com/services/T0/B0/secret"])

    assert "T0/B0" not in repr(settings)
