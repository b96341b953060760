"""What a budget of JOBQUEUE["BUDGETS"] says: whose costs, how much in which window, and what happens at its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from .internal import INTERNAL_QUEUE, is_internal
from .payloads import check_name

PERIODS: Final = ("hour", "day", "month")
ALERT, PAUSE, REFUSE = "alert", "pause", "refuse"
AT_LIMIT: Final = (ALERT, PAUSE, REFUSE)
#: Per cent of the amount at which somebody is told, and at which the limit is reached.
WARNS_AT, SPENT_AT = 80, 100

_KEYS: Final = ("job_type", "queue", "amount", "unit", "per", "at_limit")
_MOST: Final = Decimal(10) ** 12
_DIGITS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTerms:
    """One budget: of a job type, of a queue, or of everything where neither is named."""

    name: str
    amount: Decimal
    unit: str
    per: str  # hour, day or month: calendar windows in TIME_ZONE
    at_limit: str  # alert, pause or refuse
    job_type: str | None = None
    queue: str | None = None

    def covers(self, job_type: str, queue: str) -> bool:
        """Tell whether a job counts against this budget; the package's own jobs, such as alerts, never do."""
        return self.job_type in (None, job_type) and self.queue in (None, queue) and not is_internal(job_type)

    def level(self, spent: Decimal) -> int:
        """Return the share that was passed, in per cent: 0, 80 or 100."""
        share = spent * 100
        return next((level for level in (SPENT_AT, WARNS_AT) if share >= level * self.amount), 0)


def budgets(value: Any) -> Mapping[str, BudgetTerms]:
    """Allow a dict from names to budgets: a rule as those of rules.py, raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from names to budgets, not {type(value).__name__}")
    return {name: _terms(check_name("budget", name), item) for name, item in value.items()}


def refusing(terms: Mapping[str, BudgetTerms]) -> list[BudgetTerms]:
    """Return the budgets that have enqueues refused once they are spent."""
    return [budget for budget in terms.values() if budget.at_limit == REFUSE]


def _terms(name: str, item: Any) -> BudgetTerms:
    if isinstance(item, BudgetTerms):
        return item
    if not isinstance(item, Mapping):
        raise ValueError(f"{name}: a budget is a dict, not {type(item).__name__}")
    if unknown := sorted(str(key) for key in item if key not in _KEYS):
        raise ValueError(f"{name}: unknown key {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    job_type, queue = item.get("job_type"), item.get("queue")
    if job_type is not None and queue is not None:
        raise ValueError(f"{name}: a budget is of a job_type or of a queue, not of both")
    unit = item.get("unit", "USD")
    if not isinstance(unit, str) or not unit:
        raise ValueError(f"{name}: unit must be a string, not empty")
    if item.get("at_limit") == PAUSE and (queue == INTERNAL_QUEUE or is_internal(str(job_type))):
        raise ValueError(f"{name}: the package's own queue cannot be paused by a budget: alerts would be silent")
    return BudgetTerms(
        name=name,
        amount=_amount(name, item.get("amount")),
        unit=unit,
        per=_one_of(name, "per", item.get("per"), PERIODS),
        at_limit=_one_of(name, "at_limit", item.get("at_limit", ALERT), AT_LIMIT),
        job_type=None if job_type is None else check_name("job type", job_type),
        queue=None if queue is None else check_name("queue", queue),
    )


def _one_of(name: str, key: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{name}: {key} must be one of {', '.join(allowed)}, not {value!r}")
    return str(value)


def _amount(name: str, value: Any) -> Decimal:
    rule = f"{name}: amount must be above 0 and below {_MOST}, as text, a Decimal or an int"
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError(f"{rule}, not {type(value).__name__}")
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{rule}, and {value!r} is none") from None
    if not amount.is_finite() or not 0 < amount < _MOST:
        raise ValueError(f"{rule}, not {value!r}")
    if round(amount, _DIGITS) != amount:
        raise ValueError(f"{name}: amount {value!r} has more than {_DIGITS} decimals")
    return amount
