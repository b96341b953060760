"""Go on with a batch although the database refuses to change one of its rows.

A trigger of the project's that raises, or a name too long for an index, written by hand: either would fail the
statement for all rows of the batch, again and again. The batch is halved until the row stands alone; then it is told
and stepped over for a while.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.db import DatabaseError

from .settling import is_of_a_row

logger = logging.getLogger("jobqueue.database")

STEP_OVER_SECONDS = 60.0
Row = TypeVar("Row", bound=tuple[Any, ...])


class Culprits(Generic[Row]):
    """Runs `change(limit, skip)` around the rows that it must not touch; `first(skip)` names its first row."""

    def __init__(
        self,
        change: Callable[[int, Sequence[int]], list[Row]],
        first: Callable[[Sequence[int]], int | None],
    ) -> None:
        self._change, self._first = change, first
        self._until: dict[int, float] = {}
        self.more = False  # whether the last batch was cut short, so that there is more to do

    def run(self, limit: int) -> list[Row]:
        """Change one batch and return its rows; raises what is not the fault of one row."""
        now = time.monotonic()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        self.more = False
        while True:
            try:
                rows = self._change(limit, list(self._until))
            except DatabaseError as error:
                if not is_of_a_row(error):
                    raise
                self.more = True
                if limit > 1:
                    limit //= 2
                elif not self._step_over(error):
                    return []
            else:
                return rows

    def _step_over(self, error: DatabaseError) -> bool:
        culprit = self._first(list(self._until))
        if culprit is None:  # gone meanwhile
            return False
        self._until[culprit] = time.monotonic() + STEP_OVER_SECONDS
        text = str(error).strip().split("\n")[0]
        logger.warning("job stepped over, the database refuses its change job_id=%s error=%s", culprit, text)
        return True
