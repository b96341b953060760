"""The rule of each setting by itself: a function that returns the value to keep, or raises ValueError with the rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .exceptions import InvalidName
from .limits import MB, Limits
from .payloads import check_name

Rule = Callable[[Any], Any]

_DAY: Final = 86_400


def number(low: float, high: float) -> Rule:
    """Return the rule for a number between two bounds, both allowed."""

    def rule(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number from {low} to {high}, not {type(value).__name__}")
        if not low <= value <= high:  # which NaN and infinity are not, either
            raise ValueError(f"must be from {low} to {high}")
        return value

    return rule


def whole(low: int, high: int) -> Rule:
    """Return the rule for a whole number between two bounds, both allowed."""

    def rule(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number from {low} to {high}, not {type(value).__name__}")
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return rule


def optional(rule: Rule) -> Rule:
    """Return the rule that allows None beside what another rule allows."""
    return lambda value: None if value is None else rule(value)


def flag(value: Any) -> bool:
    """Allow True and False only: the text "False" from an environment would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {type(value).__name__}")
    return value


def text(value: Any) -> str:
    """Allow a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a string, not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of strings; a single string is refused, it would be read letter by letter."""
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list or tuple of strings")
    return tuple(text(item) for item in value)


def one_or_more_texts(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of at least one string."""
    if not (found := texts(value)):
        raise ValueError("must name at least one")
    return found


def limits(value: Any) -> Mapping[str, Any]:
    """Allow a Limits or a dict of its fields; None as a value in the dict is kept, it lifts a limit."""
    if isinstance(value, Limits):
        return value.given()
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a Limits or a dict of limits, not {type(value).__name__}")
    Limits.from_json(value)
    return dict(value)


def limits_by_type(value: Any) -> Mapping[str, Mapping[str, Any]]:
    """Allow a dict from job types to limits."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from job types to limits, not {type(value).__name__}")
    found = {}
    for job_type, item in value.items():
        try:
            found[check_name("job type", job_type)] = limits(item)
        except InvalidName:
            raise
        except ValueError as error:
            raise ValueError(f"{job_type}: {error}") from error
    return found


RULES: Final[Mapping[str, Rule]] = {
    "LEASE_SECONDS": number(5, 3600),
    "DEADLINE_SECONDS": number(1, 30 * _DAY),
    "STUCK_AFTER_SECONDS": number(1, 365 * _DAY),
    "MAX_ATTEMPTS": whole(1, 32_767),
    "PRIORITY": whole(-32_768, 32_767),
    "BACKOFF_BASE_SECONDS": number(0, 366 * _DAY),
    "BACKOFF_FACTOR": number(1, 1000),
    "BACKOFF_CAP_SECONDS": number(0, 366 * _DAY),
    "INTERRUPTION_BUDGET": whole(0, 10_000),
    "POLL_SECONDS": number(0.01, 3600),
    "MAINTENANCE_SECONDS": number(0.01, 3600),
    "SHUTDOWN_TIMEOUT": number(0, _DAY),
    "KILL_GRACE": number(0, 600),
    "PROCESSES": optional(whole(1, 1024)),
    "THREADS": whole(1, 1024),
    "CHILD_MAX_JOBS": whole(1, 2**31),
    "CHILD_MAX_BYTES": whole(32 * MB, 2**50),
    # One message to a child holds a payload: beyond this it is a file, and its path belongs into the payload.
    "PAYLOAD_MAX_BYTES": whole(2, 64 * MB),
    "RESULT_MAX_BYTES": whole(4, 64 * MB),
    "ERROR_MAX_BYTES": whole(256, MB),
    "RETENTION_DONE_SECONDS": optional(number(0, 3650 * _DAY)),
    "RETENTION_CANCELLED_SECONDS": optional(number(0, 3650 * _DAY)),
    "RETENTION_DEAD_SECONDS": optional(number(0, 3650 * _DAY)),
    "NOTIFY": flag,
    "LISTEN_DSN": optional(text),
    "PREPARED": flag,
    "STATEMENT_TIMEOUT": number(0.1, 3600),
    "LIMITS": limits_by_type,
    "DEFAULT_LIMITS": limits,
    "NOTIFIERS": texts,
    "COST_UNITS": one_or_more_texts,
    "COST_PATH": text,
    "DATABASE": optional(text),
    "UNKNOWN_TYPE_RETRY_SECONDS": number(0.1, 3600),
    "UNKNOWN_TYPE_DEAD_SECONDS": number(0, 30 * _DAY),
}
