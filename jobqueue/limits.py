"""What one job may use: time, memory, and the size of its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Final

#: Bytes in a mebibyte: ``Limits(memory_bytes=256 * MB)``.
MB: Final = 1024 * 1024

#: Longer than any run that a lease should protect.
MAX_DURATION_SECONDS: Final = 30 * 86_400

_MISSING: Final = object()


def _is_number(value: object) -> bool:
    # isfinite() converts to float, which a whole number of 400 digits overflows.
    return isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job type; None means that nothing is said here.

    ``duration`` is in seconds from the start of the handler, ``memory_bytes`` is the resident memory of the job's
    process and its descendants, ``payload_bytes`` the size of the payload as stored, ``payload_fields`` the largest
    number allowed in a field that the payload itself carries, by its dotted path ("document.page_count").
    """

    duration: float | None = None
    memory_bytes: int | None = None
    payload_bytes: int | None = None
    payload_fields: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        """Refuse limits that no job could keep, or that were given in the wrong unit."""
        if self.duration is not None and not (_is_number(self.duration) and 0 < self.duration <= MAX_DURATION_SECONDS):
            raise ValueError(f"duration must be seconds, above 0 and at most 30 days, not {self.duration!r}")
        _check_bytes("memory_bytes", self.memory_bytes, MB)
        _check_bytes("payload_bytes", self.payload_bytes, 2)
        if self.payload_fields is not None:
            _check_fields(self.payload_fields)
            object.__setattr__(self, "payload_fields", dict(self.payload_fields))

    def given(self) -> dict[str, Any]:
        """Return the limits that are set here, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    def merged(self, over: Limits | Mapping[str, Any]) -> Limits:
        """Return these limits with those of ``over`` on top; payload_fields are joined field by field.

        In a mapping an explicit None lifts the limit that is set here. Raises ValueError for an unknown name.
        """
        return Limits(**merge_values(self.given(), over.given() if isinstance(over, Limits) else over))

    def to_json(self) -> dict[str, Any]:
        """Return the limits that are set, as JSON holds them."""
        return self.given()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Limits:
        """Build limits from a mapping; raises ValueError for an unknown name or a value that cannot work."""
        return cls().merged(values)


_NAMES: Final = frozenset(field.name for field in fields(Limits))


def merge_values(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the named limits of both, ``over`` first; a field bounded by None in ``over`` is not bounded."""
    if unknown := sorted(map(str, set(over) - _NAMES)):
        raise ValueError(f"unknown limit {', '.join(unknown)}; known are {', '.join(sorted(_NAMES))}")
    merged = {**under, **over}
    bounds, more = under.get("payload_fields"), over.get("payload_fields")
    if isinstance(bounds, Mapping) and isinstance(more, Mapping):
        merged["payload_fields"] = {**bounds, **more}
    if isinstance(chosen := merged.get("payload_fields"), Mapping):
        merged["payload_fields"] = {path: bound for path, bound in chosen.items() if bound is not None}
    return merged


def _check_bytes(name: str, value: object, lowest: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise ValueError(f"{name} must be a whole number of bytes, at least {lowest}, not {value!r}")


def _check_fields(bounds: object) -> None:
    if not isinstance(bounds, Mapping):
        raise ValueError(f"payload_fields must map field paths to numbers, not {bounds!r}")
    for path, bound in bounds.items():
        if not isinstance(path, str) or not all(path.split(".")):
            raise ValueError(f"payload_fields: {path!r} is not a dotted field path")
        if not _is_number(bound):
            raise ValueError(f"payload_fields[{path!r}] must be a number, not {bound!r}")


def check_input(limits: Limits, payload: Mapping[str, Any], payload_bytes: int) -> str | None:
    """Return the text of the first input limit that the payload breaks, or None.

    A bounded field that is missing is fine, one that holds no number is not: what cannot be compared cannot be
    trusted to be small.
    """
    if limits.payload_bytes is not None and payload_bytes > limits.payload_bytes:
        return f"the payload has {payload_bytes} bytes, its limit is {limits.payload_bytes}"
    for path, bound in (limits.payload_fields or {}).items():
        value = _look_up(payload, path)
        if value is _MISSING:
            continue
        if not _is_number(value):
            return f"payload field {path} is {_kind(value)}, its limit of {bound} needs a number"
        if value > bound:
            return f"payload field {path} is {_short(value)}, its limit is {bound}"
    return None


def _look_up(payload: Any, path: str) -> Any:
    value = payload
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _kind(value: object) -> str:
    names = {bool: "a boolean", type(None): "null", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _short(value: float) -> str:
    # A whole number in a payload may have thousands of digits, and Python refuses to print more than 4,300.
    return str(value) if abs(value) < 10**30 else f"{value:.6e}" if isinstance(value, float) else "above 10**30"
