"""What an alert rule is: the ones built in, those that a project adds for gauges and counters, and what each may say.

A rule has a level that its value must not reach: `threshold` or `above` from below, `below` from above. It fires when
that has lasted for `for_seconds`, and is over when the value has been on the good side of `clear_threshold` for
`clear_for_seconds`; for `cooldown_seconds` after that it does not fire again. See docs/alerts.md.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from .payloads import check_name

HOUR: Final = 3600
#: The job type that tells of an incident, and how often it is tried.
ALERT: Final = "jobqueue.alert"
ATTEMPTS: Final = 5

#: The rules that are there without being named. A share is from 0 to 1, a budget's level in per cent.
BUILT_IN: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "deadline_1h": {"threshold": 5, "window_seconds": HOUR},
        "cost_1h_usd": {"threshold": 1.0, "window_seconds": HOUR, "clear_ratio": 0.8},
        "dead_1h": {"threshold": 1, "window_seconds": HOUR},
        "stuck_running": {"threshold": 1},
        "oldest_pending_sec": {"threshold": 300, "clear_ratio": 0.8},
        "failure_rate": {"threshold": 0.2, "window_seconds": 900, "minimum_jobs": 20, "clear_ratio": 0.5},
        "queue_without_worker": {"threshold": 1, "for_seconds": 60},
        "worker_silent": {"threshold": 30},
        "budget_80": {"threshold": 80},
        "budget_100": {"threshold": 100},
        "oldest_snapshot_sec": {"threshold": 600},
        "queue_paused_sec": {"threshold": 86_400},
        "figures_unknown": {"threshold": 1, "for_seconds": 300},
    }
)
#: Names of settings: JOBQUEUE_ALERT_LINK and the like could not be told from the threshold of such a rule.
TAKEN: Final = frozenset({"s", "seconds", "link", "emails", "webhooks"})
AGGREGATES: Final = ("min", "max", "sum", "avg")
LONGEST_SECONDS: Final = 366 * 86_400
LARGEST: Final = sys.float_info.max

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_SERIES: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_DURATIONS: Final = ("for_seconds", "clear_for_seconds", "cooldown_seconds", "window_seconds")
_COMMON: Final = {"enabled", "threshold", "clear_threshold", *_DURATIONS[:3], "subjects"}
_LEVELS: Final = ("threshold", "above", "below")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule in force. `source` is the name of a built-in value, "gauge" or "counter"; `series` their name."""

    name: str
    source: str
    threshold: float
    below: bool = False
    clear_threshold: float | None = None
    clear_ratio: float = 1.0
    for_seconds: float = 0
    clear_for_seconds: float = 60
    cooldown_seconds: float = 300
    enabled: bool = True
    muted_until: datetime | None = None
    subjects: Mapping[str, float | None] = field(default_factory=dict)
    window_seconds: float = HOUR
    minimum_jobs: int = 0
    series: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    aggregate: str = "max"

    def for_subject(self, subject: str) -> Rule | None:
        """Return the rule with the threshold of one subject, None where it is switched off for it."""
        if subject not in self.subjects:
            return self
        threshold = self.subjects[subject]
        return None if threshold is None else replace(self, threshold=threshold, clear_threshold=None)

    def is_broken(self, value: float) -> bool:
        """Tell whether the value has reached the threshold."""
        return value <= self.threshold if self.below else value >= self.threshold

    def is_calm(self, value: float) -> bool:
        """Tell whether the value is far enough on the good side for an incident to end."""
        if self.is_broken(value):
            return False
        level = self.clear_level
        if level == self.threshold:
            return True
        return value > level if self.below else value < level

    @property
    def clear_level(self) -> float:
        """The value that an incident must have got past to end."""
        if self.clear_threshold is not None:
            return self.clear_threshold
        return self.threshold / self.clear_ratio if self.below else self.threshold * self.clear_ratio

    @property
    def limit(self) -> str:
        """The threshold in words: "≥ 5", "≤ 30"."""
        return f"{'≤' if self.below else '≥'} {number(self.threshold)}"


def number(value: float) -> str:
    """Return a value as people read it: whole where it is whole, else with two or three digits that matter."""
    if not abs(value) < 1e15 or value == int(value):  # nor a NaN that somebody wrote by hand
        return f"{value:.15g}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def merged(name: str, *layers: Any) -> dict[str, Any]:
    """Return the definition of a rule: what is built in under its name, and over it layer by layer.

    A layer is a dict of options, a number (the level), or None (switched off). Raises ValueError for anything else.
    """
    options = dict(BUILT_IN.get(name, {}))
    for layer in layers:
        if layer is None:
            options["enabled"] = False
        elif isinstance(layer, Mapping):
            # Of two words for the level the later one counts.
            if set(_LEVELS) & set(layer):
                options = {key: value for key, value in options.items() if key not in _LEVELS}
            options |= {"enabled": True} | dict(layer)
        else:
            level = next((word for word in _LEVELS if word in options), "threshold")
            options |= {level: _number("threshold", layer), "enabled": True}
    return options


def make_rule(name: str, *layers: Any) -> Rule:
    """Return the rule that the layers define, see merged(). Raises ValueError saying which option breaks which rule."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in TAKEN:
        taken = ", ".join(sorted(TAKEN))
        raise ValueError(f"{name!r}: a rule's name is lower-case letters, digits and _ from a letter on, not {taken}")
    try:
        return _made(name, merged(name, *layers))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _made(name: str, options: dict[str, Any]) -> Rule:
    source = _source(name, options)
    _check_names(name, source, options)
    values: dict[str, Any] = {"name": name, "source": source, "enabled": _flag(options.pop("enabled", True))}
    values |= _level(options, needed=values["enabled"])
    if source in ("gauge", "counter"):
        values["series"] = _series(source, options.pop(source))
        values["aggregate"] = "min" if values.get("below") else "max"
    for key, value in options.items():
        values[key] = _CHECKS[key](key, value)
    return Rule(**values)


def _source(name: str, options: Mapping[str, Any]) -> str:
    found = [kind for kind in ("gauge", "counter") if kind in options]
    if name in BUILT_IN:
        if found:
            raise ValueError(f"is built in, it cannot be of a {found[0]}: choose another name")
        return name
    if len(found) != 1:
        raise ValueError(f"needs either gauge or counter; built-in rules are {', '.join(BUILT_IN)}")
    return found[0]


def _check_names(name: str, source: str, options: Mapping[str, Any]) -> None:
    allowed = _COMMON | {"clear_ratio"}
    if source == "gauge":
        allowed |= {"gauge", "aggregate", "labels", "above", "below"}
    elif source == "counter":
        allowed |= {"counter", "labels", "window_seconds", "above", "below"}
    else:
        allowed |= set(BUILT_IN[name])
    if unknown := sorted(str(key) for key in options if key not in allowed):
        raise ValueError(
            f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(allowed - {'clear_ratio'}))}"
        )


def _level(options: dict[str, Any], *, needed: bool) -> dict[str, Any]:
    given = {word: options.pop(word) for word in _LEVELS if word in options}
    if len(given) != 1:
        if not given and not needed:
            return {"threshold": math.inf}
        raise ValueError("needs one of threshold, above and below")
    ((word, value),) = given.items()
    return {"threshold": _number(word, value), "below": word == "below"}


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{key} must be a number, not {value!r:.80}")
    return value


def _ratio(key: str, value: Any) -> float:
    if not 0 < _number(key, value) <= 1:
        raise ValueError(f"{key} must be above 0 and at most 1, not {value!r}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"enabled must be True or False, not {value!r}")
    return value


def _seconds(key: str, value: Any) -> float:
    if not 0 <= _number(key, value) <= LONGEST_SECONDS:
        raise ValueError(f"{key} must be from 0 to {LONGEST_SECONDS}, not {value!r}")
    return float(value)


def _window(key: str, value: Any) -> float:
    if _seconds(key, value) == 0:
        raise ValueError(f"{key} must be above 0")
    return float(value)


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} must be a whole number from 0 on, not {value!r}")
    return value


def _aggregate(key: str, value: Any) -> str:
    if value not in AGGREGATES:
        raise ValueError(f"{key} must be one of {', '.join(AGGREGATES)}, not {value!r}")
    return str(value)


def _series(key: str, value: Any) -> str:
    if not isinstance(value, str) or not _SERIES.fullmatch(value):
        raise ValueError(f"{key} must be the name of one, not {value!r}")
    return value


def _labels(key: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ValueError(f"{key} must be a dict of texts, not {value!r}")
    return dict(value)


def _subjects(key: str, value: Any) -> Mapping[str, float | None]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be a dict from queues, types or budgets to thresholds, not {value!r}")
    return {
        check_name("subject", subject): None if level is None else _number(f"{key}: {subject}", level)
        for subject, level in value.items()
    }


_CHECKS: Final = {
    "clear_threshold": _number,
    "clear_ratio": _ratio,
    "for_seconds": _seconds,
    "clear_for_seconds": _seconds,
    "cooldown_seconds": _seconds,
    "window_seconds": _window,
    "minimum_jobs": _whole,
    "aggregate": _aggregate,
    "labels": _labels,
    "subjects": _subjects,
}
