"""Gauges and counters: what a project wants to know of its work, told from a handler or a heartbeat's receiver.

    gauge("proxy_ports_available_pct", 27, {"provider": "acme"})
    count("sessions", end_reason="block")

A gauge is a state: the last value of a worker counts. A counter only grows. The worker carries both with its
heartbeat; outside of a worker nobody would, so there both functions raise. See docs/gauges.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from .errors import cut_text
from .exceptions import JobQueueError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LABELS: Final = 8
LONGEST_LABEL_BYTES: Final = 128
LARGEST_COUNT: Final = 1e15  # a sum of many such still is a number that a float holds

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}")


class Measure(NamedTuple):
    """One call: of gauge() or of count(). Labels are sorted by name."""

    kind: Literal["gauge", "count"]
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


Carrier = Callable[[Measure], object]

_carrier: Carrier | None = None


def gauge(name: str, value: float | Decimal, labels: Mapping[str, object] | None = None) -> None:
    """Tell the present value of something that goes up and down; it is forgotten when not told again for ten minutes.

    Names, also those of labels, are 1 to 63 letters, digits and underscores and begin with no digit; there are at
    most 8 labels, whose values are kept as text of at most 128 bytes. Raises ValueError for what breaks these rules or
    is not finite, TypeError for a value that is no number, JobQueueError outside of a worker.
    """
    _carry(Measure("gauge", _checked_name(name), _checked_labels(labels or {}), _checked_number(value)))


def count(name: str, /, n: float | Decimal = 1, **labels: object) -> None:
    """Count something that happened, `n` times; what was counted stays counted, also if the attempt fails.

    Rules and errors as of gauge(); ValueError also for an `n` that is negative or over 10^15.
    """
    amount = _checked_number(n)
    if not 0 <= amount <= LARGEST_COUNT:
        raise ValueError(f"a count is from 0 to 10^15, not {n}: for what goes down, too, there is gauge()")
    _carry(Measure("count", _checked_name(name), _checked_labels(labels), amount))


def is_carried() -> bool:
    """Tell whether anybody takes the measures of this process."""
    return _carrier is not None


def carry_by(carrier: Carrier | None) -> None:
    """Have a function take all measures of this process; None: there is nobody any more."""
    global _carrier
    _carrier = carrier


@contextmanager
def carried_by(carrier: Carrier) -> Iterator[None]:
    """Have a function take the measures within a block, and whoever took them before after it."""
    before = _carrier
    carry_by(carrier)
    try:
        yield
    finally:
        carry_by(before)


def _carry(measure: Measure) -> None:
    carrier = _carrier
    if carrier is None:
        msg = (
            f"jobqueue.{measure.kind}({measure.name!r}): only handlers and receivers of worker_heartbeat may call it, "
            "as a worker's heartbeat carries it; in tests use run_once() or jobqueue.testing.measured()"
        )
        raise JobQueueError(msg)
    carrier(measure)


def _checked_name(name: Any, what: str = "name") -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a {what} is 1 to 63 of a-z, A-Z, 0-9 and _, and begins with no digit: not {name!r:.100}")
    return name


def _checked_labels(labels: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels are a dict from names to texts, not {type(labels).__name__}")
    if len(labels) > MOST_LABELS:
        raise ValueError(f"at most {MOST_LABELS} labels, not {len(labels)}: each set of values is a series of its own")
    found = {_checked_name(name, "label"): cut_text(str(value), LONGEST_LABEL_BYTES) for name, value in labels.items()}
    return tuple(sorted(found.items()))


def _checked_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"a value is a number, not {type(value).__name__}")
    try:
        number = float(value)
    except (OverflowError, ValueError) as error:  # an int of 400 digits; a signalling NaN
        raise ValueError("a value must fit into a float") from error
    if not isfinite(number):
        raise ValueError(f"a value must be finite, not {number}")
    return number
