"""What jobs are likely to cost if they run once more, by what attempts of their types cost lately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from .costs import costs_by
from .statistics import figures

#: The history that means are taken from.
WINDOW: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one attempt of each of some jobs would cost; `unknown` are types that had no attempt in the window."""

    amounts: Mapping[str, Decimal]  # by unit
    unknown: tuple[str, ...]


def estimated_costs(jobs: Mapping[str, int], *, using: str | None = None) -> Estimate:
    """Return what so many jobs of each type would cost with one attempt each, at the mean of the last seven days.

    A mean is that of all attempts, failed ones too. Jobs that fail again cost more: an attempt for each try.
    """
    attempts = {key[0]: one.jobs for key, one in figures(WINDOW, by=("job_type",), times=False, using=using).items()}
    amounts: dict[str, Decimal] = {}
    for group in costs_by("job_type", since=WINDOW, using=using):
        name = group.key[0]
        if name in jobs and attempts.get(name):
            share = group.amount * jobs[name] / attempts[name]
            amounts[group.unit] = amounts.get(group.unit, Decimal(0)) + share
    return Estimate(amounts, tuple(sorted(name for name in jobs if not attempts.get(name))))
