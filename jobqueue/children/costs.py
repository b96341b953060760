"""What an attempt costs, as amounts that can be kept: reported by the handler, carried by its result, or by price list.

Sums are taken in a decimal context of their own: one that a handler has set for its work must not round them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any, Final

from jobqueue import rates
from jobqueue.conf import get_settings
from jobqueue.errors import clean_text
from jobqueue.managers import CostLine, Done, Ending
from jobqueue.outcomes import Outcome

logger = logging.getLogger("jobqueue.run")

EXACT: Final = Context(prec=60)
LARGEST_AMOUNT: Final = Decimal(10) ** 12
PLACES: Final = Decimal("0.00000001")
RESULT: Final = "result"  # the component of what a result costs and names no component for
MOST_COMPONENTS: Final = 100
MOST_COMPONENT_BYTES: Final = 63

NEVER_CALLED: Final = (Outcome.INPUT_LIMIT, Outcome.UNKNOWN_TYPE)
NOT_IMPORTED: Final = "jobqueue.exceptions.HandlerImportError"

_warned: set[str] = set()  # job types whose results were warned of, once a process


class Costs:
    """What one attempt has cost so far: one amount for each component and unit, however often it was added to."""

    __slots__ = ("_amounts",)

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], Decimal] = {}

    def add(self, line: CostLine) -> None:
        """Add an amount. Raises ValueError, and adds nothing, where the sum would not fit into its column."""
        key = line.component, line.unit
        with localcontext(EXACT):
            amount = self._amounts.get(key, Decimal(0)) + line.amount
            spent = sum((each for (_, unit), each in self._amounts.items() if unit == line.unit), line.amount)
        if abs(amount) >= LARGEST_AMOUNT or abs(spent) >= LARGEST_AMOUNT:
            msg = f"the costs of an attempt are below 10^12 in all, not {spent}"
            raise ValueError(msg)
        if key not in self._amounts and len(self._amounts) >= MOST_COMPONENTS:
            msg = f"an attempt's costs have {MOST_COMPONENTS} components at most: {line.component!r} would be one more"
            raise ValueError(msg)
        self._amounts[key] = amount

    def takes(self, lines: Iterable[CostLine]) -> bool:
        """Tell whether all of these could be added."""
        trial = Costs()
        trial._amounts = dict(self._amounts)
        try:
            for line in lines:
                trial.add(line)
        except ValueError:
            return False
        return True

    def lines(self) -> tuple[CostLine, ...]:
        """Return a line for each component and unit, in the order in which they first came."""
        return tuple([CostLine(component, unit, amount) for (component, unit), amount in self._amounts.items()])


def cost_line(component: str, amount: Any, unit: str) -> CostLine:
    """Return a checked cost. Errors as in Context.add_cost()."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int):
        given = f"{type(amount).__name__} {amount!r:.100}"
        msg = f"a cost is a Decimal or an int, not {given}: a float's cents are not exact"
        raise TypeError(msg)
    settings = get_settings()
    value = _checked(Decimal(amount), settings.COST_REFUND_MAX)
    if unit not in settings.COST_UNITS:
        msg = f"cost unit {unit!r} is not one of JOBQUEUE['COST_UNITS'] {settings.COST_UNITS!r}"
        raise ValueError(msg)
    size = len(component.encode("utf-8", "replace")) if isinstance(component, str) else 0
    if not 0 < size <= MOST_COMPONENT_BYTES:
        msg = f"a cost's component is a text of 1 to {MOST_COMPONENT_BYTES} bytes, not {component!r:.100}"
        raise ValueError(msg)
    return CostLine(clean_text(component), unit, value)


def _checked(value: Decimal, refund: Decimal) -> Decimal:
    """Return an amount at the places that are stored. Raises ValueError."""
    shown = str(value) if len(value.as_tuple().digits) < 50 else f"{value:.6e}"
    if value.is_finite() and -LARGEST_AMOUNT < value < -refund:
        msg = f"a cost is from 0, not {shown}: a refund may be JOBQUEUE['COST_REFUND_MAX'] = {refund} at most"
        raise ValueError(msg)
    if value.is_finite() and abs(value) < LARGEST_AMOUNT:
        stored = value.quantize(PLACES, ROUND_HALF_UP, EXACT)
        if abs(stored) < LARGEST_AMOUNT:
            return stored
    msg = f"a cost is from 0 to below 10^12, not {shown}"
    raise ValueError(msg)


def costs_in_result(result: Any, job_type: str) -> list[CostLine]:
    """Return the costs that a result carries at JOBQUEUE["COST_PATH"], none where it carries no amount there.

    What the mapping that holds the total names under "components" is kept by component, and what the total is more
    than those comes under "result". Components that are more than the total, or are no amounts, are left out, and a
    warning says so once for each type.
    """
    settings = get_settings()
    *path, last = settings.COST_PATH.split(".")
    holder = result
    for step in path:
        holder = holder.get(step) if isinstance(holder, Mapping) else None
    if not isinstance(holder, Mapping) or last not in holder:
        return []
    unit = settings.COST_UNITS[0]
    try:
        total = cost_line(RESULT, _amount(holder[last]), unit)
    except (TypeError, ValueError):
        return []
    if not holder.get("components"):
        return [total]
    try:
        return _by_component(total, holder["components"])
    except (TypeError, ValueError) as error:
        _warn(job_type, f"only the total is kept: {error}")
        return [total]


def _by_component(total: CostLine, components: Any) -> list[CostLine]:
    if not isinstance(components, Mapping):
        msg = f"components is a {type(components).__name__}, not an object"
        raise TypeError(msg)
    if len(components) >= MOST_COMPONENTS:
        msg = f"there are {len(components)} components, {MOST_COMPONENTS - 1} may be"
        raise ValueError(msg)
    lines = [cost_line(name, _amount(value), total.unit) for name, value in components.items()]
    with localcontext(EXACT):
        rest = total.amount - sum((line.amount for line in lines), Decimal(0))
        if -rest > PLACES * len(lines):
            msg = f"the components are {-rest} more than the total of {total.amount}"
            raise ValueError(msg)
        if rest < 0:  # by their rounding only: it comes off the largest, so that the sum is the total
            largest = max(range(len(lines)), key=lambda index: lines[index].amount)
            lines[largest] = lines[largest]._replace(amount=lines[largest].amount + rest)
    return [*lines, total._replace(amount=rest)] if rest > 0 else lines


def _amount(value: Any) -> Decimal:
    """Return the amount that JSON holds: a number, or a text that is one. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        msg = f"an amount is a number or a text, not {type(value).__name__}"
        raise TypeError(msg)
    try:
        return Decimal(value if isinstance(value, int) else str(value))
    except InvalidOperation:
        msg = f"{value!r:.100} is no amount"
        raise ValueError(msg) from None


def leave_out(lines: Iterable[CostLine], job_type: str) -> None:
    """Say that a result's costs do not fit to those that its attempt had reported."""
    amount = sum((line.amount for line in lines), Decimal(0))
    _warn(job_type, f"left out: {amount} and what was reported before are more than an attempt may cost")


def _warn(job_type: str, text: str) -> None:
    """Say what became of a result's costs, once for each type: its jobs may come by the thousand."""
    if job_type not in _warned:
        _warned.add(job_type)
        logger.warning("costs in results type=%.63s %s (said once a process)", job_type, text)


def priced(
    job_type: str, *, run_seconds: float, cpu_seconds: float | None, memory_bytes: float | None
) -> tuple[CostLine, ...]:
    """Return what the price list charges an attempt that reported no cost; the figures as for rates.priced()."""
    with localcontext(EXACT):
        lines = rates.priced(job_type, run_seconds=run_seconds, cpu_seconds=cpu_seconds, memory_bytes=memory_bytes)
    return tuple(map(CostLine._make, lines))


def is_chargeable(end: Done | Ending) -> bool:
    """Tell whether the price list may charge an attempt: it reported no cost, and its handler was called."""
    never_called = isinstance(end, Ending) and (end.outcome in NEVER_CALLED or end.error_class == NOT_IMPORTED)
    return not end.costs and not never_called


def summed(costs: Iterable[CostLine], line: CostLine) -> tuple[CostLine, ...]:
    """Return the lines with one more added: to the line of its component and unit, where there is one."""
    lines = list(costs)
    for index, known in enumerate(lines):
        if (known.component, known.unit) == (line.component, line.unit):
            lines[index] = known._replace(amount=EXACT.add(known.amount, line.amount))
            return tuple(lines)
    return (*lines, line)
