"""Which queues have due jobs, for a worker that serves them all: looked for once a poll, and when nothing was found.

The look is a statement of its own. A job that a hint has told of does not wait for it: the hint names the queue.
"""

from __future__ import annotations

import logging
import time
from math import inf

from django.db import OperationalError

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.logs import Quietly
from jobqueue.managers.counting import pending_queues
from jobqueue.managers.rows import Run
from jobqueue.managers.settling import sqlstate

from .claims import QUERY_CANCELED, Claims
from .queues import QueuePlan

logger = logging.getLogger("jobqueue.worker")


class Learning:
    """When to look, and the look."""

    def __init__(self, run: Run, plan: QueuePlan, claims: Claims, *, poll_seconds: float) -> None:
        self._run, self._plan, self._claims, self._poll_seconds = run, plan, claims, poll_seconds
        self._due_at, self._not_before = -inf, 0.0
        self._quietly = Quietly(logger)

    def ask(self) -> None:
        """Have the next claim look."""
        self._due_at = -inf

    def is_due(self, now: float, *, hungry: bool, hinted: bool) -> bool:
        """Tell whether the next claim has to look first: `hungry` for work in known queues, `hinted` of it by name."""
        due_at = self._due_at + (self._poll_seconds if hinted else 0.0)
        return self._plan.every and (not hungry or now >= due_at) and now >= self._not_before

    def look(self) -> bool | None:
        """Learn which queues have due jobs; where that takes too long, those known till now are claimed from.

        Returns whether the package's own queue has none, None where that took too long, too.
        """
        began, own_is_empty = time.monotonic(), None
        self._due_at = began + self._poll_seconds  # before it asks: who asks for another meanwhile gets one
        try:
            found = set(pending_queues(self._run))
            self._plan.learnt, own_is_empty = found, INTERNAL_QUEUE not in found
        except OperationalError as error:
            if sqlstate(error) != QUERY_CANCELED:
                raise
            self._quietly.warning("queues not looked for error=%s", str(error).strip().split("\n")[0])
        looked_at = time.monotonic()
        # Under an old snapshot it walks over every job that was claimed since, and jobs wait for it meanwhile.
        self._not_before = looked_at + self._claims.rest_after(looked_at - began)
        return own_is_empty
