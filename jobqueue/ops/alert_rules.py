"""The alert rules in force, of four layers: the admin has the last word, then the environment, the settings, built in.

The environment is read here, not by the project's settings, since its place is between two other layers:
JOBQUEUE_ALERT_DEADLINE_1H=10 is the threshold of the rule `deadline_1h`, empty or "off" switches the rule off.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from jobqueue.alerting import BUILT_IN, Rule, make_rule
from jobqueue.conf import get_settings
from jobqueue.models import AlertRule

PREFIX: Final = "JOBQUEUE_ALERT_"
OFF: Final = ("", "off", "none")


@dataclass(frozen=True, slots=True)
class Layered:
    """One rule in force, which layer has the last word on it, and what is wrong with a layer that was left out."""

    rule: Rule
    layer: str  # "built in", "settings", "environment" or "admin"
    problems: tuple[str, ...] = ()


def rules_in_force(using: str, environment: Mapping[str, str] | None = None) -> list[Layered]:
    """Return the rules, by name, switched-off ones too; `using` is the alias that the admin's rows are read from."""
    return layered(AlertRule.objects.using(using).order_by("name"), environment)


def layered(rows: Iterable[AlertRule], environment: Mapping[str, str] | None = None) -> list[Layered]:
    """Return the rules, by name. A layer that cannot be read is left out and named: the others must go on watching."""
    settings, by_name = get_settings().ALERTS, {row.name: row for row in rows}
    own = {name for name, row in by_name.items() if row.definition is not None}
    names = sorted({*BUILT_IN, *settings, *own})
    read = os.environ if environment is None else environment
    return [_layered(name, settings, by_name.get(name), read) for name in names]


def environment_problems(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return what is wrong with the variables of the built-in rules and of those in the settings."""
    return [problem for each in layered([], environment) for problem in each.problems]


def variable(name: str) -> str:
    """Return the environment variable that has the threshold of a rule."""
    return PREFIX + name.upper()


def _layered(name: str, settings: Mapping[str, Any], row: AlertRule | None, environment: Mapping[str, str]) -> Layered:
    layers: list[tuple[str, Any]] = [("settings", settings[name])] if name in settings else []
    problems: list[str] = []
    if variable(name) in environment:
        _add_variable(layers, problems, variable(name), environment[variable(name)])
    if row is not None:
        # Its definition is a whole rule of its own, below what the environment says of it.
        if row.definition is not None:
            layers.insert(0, ("admin", row.definition))
        layers += [("admin", change) for change in _changes(row)]
    rule, layer = _made(name, layers, problems)
    return Layered(rule if row is None else replace(rule, muted_until=row.muted_until), layer, tuple(problems))


def _add_variable(layers: list[tuple[str, Any]], problems: list[str], name: str, text: str) -> None:
    if text.strip().lower() in OFF:
        layers.append(("environment", None))
        return
    try:
        layers.append(("environment", float(text)))
    except ValueError:
        problems.append(f"{name}={text!r} is not a number; empty or off switches the rule off")


def _changes(row: AlertRule) -> list[Any]:
    if not row.enabled:
        return [None]
    given = {option: getattr(row, option) for option in ("for_seconds", "cooldown_seconds")}
    options = {"enabled": True} | {option: value for option, value in given.items() if value is not None}
    return [options] if row.threshold is None else [options, row.threshold]


def _made(name: str, layers: list[tuple[str, Any]], problems: list[str]) -> tuple[Rule, str]:
    """Return the rule of those layers that can be read, the lowest first, and the highest of them."""
    values: list[Any] = []
    rule, highest = _base(name), "built in"
    for layer, value in layers:
        try:
            rule = make_rule(name, *values, value)
        except ValueError as error:
            problems.append(f"{layer}: {error}")
        else:
            values.append(value)
            highest = layer
    return rule, highest


def _base(name: str) -> Rule:
    """Return the built-in rule, or one that looks at nothing."""
    return make_rule(name) if name in BUILT_IN else Rule(name=name, source="", threshold=0, enabled=False)
