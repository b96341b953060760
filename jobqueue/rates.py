"""The price list: what an attempt that reported no cost is charged, by JOBQUEUE["RATES"].

A rate stands for a job type, or for all of the project's that have none ("*"). It prices CPU seconds, gigabyte seconds
(10^9 bytes held for one second: the peak times the run time) and the call itself. Amounts are exact: a measured figure
is taken at the digits it is printed with, and each component is rounded once to the eight places that are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from .conf import get_settings
from .internal import is_internal

GIGABYTE: Final = 10**9
PLACES: Final = Decimal("1E-8")
HIGHEST: Final = Decimal("999999999999.99999999")

Rate = Mapping[str, Any]
"""Decimals by "cpu_second", "gb_second" and "call", and a "unit", as rules.rates() leaves them."""


def rate_of(job_type: str) -> Rate | None:
    """Return the rate of a job type (its own name, not an alias), None where it has none."""
    rates = get_settings().RATES
    if not rates:
        return None
    return rates.get(job_type) or (None if is_internal(job_type) else rates.get("*"))


def priced(
    job_type: str, *, run_seconds: float, cpu_seconds: float | None, memory_bytes: float | None
) -> list[tuple[str, str, Decimal]]:
    """Return (component, unit, amount) of what one attempt is charged, without the components that come to nothing.

    `memory_bytes` is the most that it held at a time. What was not measured (None) is not charged.
    """
    rate = rate_of(job_type)
    if rate is None:
        return []
    used = {
        "cpu": _exact(cpu_seconds) * rate["cpu_second"],
        "memory": _exact(memory_bytes) / GIGABYTE * _exact(run_seconds) * rate["gb_second"],
        "call": rate["call"],
    }
    unit = rate["unit"] or get_settings().COST_UNITS[0]
    amounts = {name: min(value, HIGHEST).quantize(PLACES, ROUND_HALF_UP) for name, value in used.items()}
    return [(name, unit, amount) for name, amount in amounts.items() if amount]


def _exact(figure: float | None) -> Decimal:
    return Decimal(0) if figure is None else Decimal(repr(max(0, figure)))
