"""The shape that every maintenance service has."""

from __future__ import annotations

from typing import Protocol


class Service(Protocol):
    """One kind of housekeeping."""

    name: str
    interval_seconds: float
    more: bool  # whether the last run left work of its kind: then the next follows at once

    def run_once(self) -> dict[str, int]:
        """Do one bounded piece of work and return what was done, by name; raises django.db errors."""
