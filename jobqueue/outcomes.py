"""How an attempt ended."""

from __future__ import annotations

from typing import Final

from django.db.models.enums import IntegerChoices


class Outcome(IntegerChoices):
    """The end of one attempt; the labels are the words used in logs, metrics and JSON, so never translated."""

    DONE = 1, "done"
    FAILED = 2, "failed"
    DEADLINE = 3, "deadline"
    MEMORY = 4, "memory"
    CRASHED = 5, "crashed"
    LEASE_EXPIRED = 6, "lease_expired"
    INTERRUPTED = 7, "interrupted"
    CANCELLED = 8, "cancelled"
    DISCARDED = 9, "discarded"
    INPUT_LIMIT = 10, "input_limit"
    UNKNOWN_TYPE = 11, "unknown_type"


#: A limit was broken: the owner hears of it even where the job is tried again.
LIMIT_OUTCOMES: Final = frozenset({Outcome.DEADLINE, Outcome.MEMORY, Outcome.INPUT_LIMIT})

#: The job is dead at once, whatever attempts are left.
FATAL_OUTCOMES: Final = frozenset({Outcome.MEMORY, Outcome.INPUT_LIMIT, Outcome.UNKNOWN_TYPE})
