"""An action on a whole set, in steps that the page drives: no request works for longer than about a second.

The set is what the page that asked had counted: jobs up to its newest id that had not ended after its moment, and of
an edit those that nobody has changed since. A job that is retried and dies again meanwhile is so not met a second time,
neither is one that dies for the first time. Each step works through the set from the id where the last one ended; what
has been done and what is left stands, signed, in the page. Nothing of it is kept on the server, and a step that is sent
twice finds its jobs changed. Each batch has its audit row whatever becomes of the page.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.core import signing
from django.db.models import Q

from jobqueue.models import Job
from jobqueue.operations.acting import BATCH, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

#: A step begins no further batch of 1,000 jobs after so long.
STEP_SECONDS: Final = 1.0
#: Ids are read so many at a time, about what a step does: a set without an index in their order is sorted for it.
CHUNK: Final = 20_000
SOME: Final = 5
KINDS: Final = 20
SALT: Final = "jobqueue.admin.running"
#: Who leaves a page open overnight is asked again.
LONGEST: Final = timedelta(hours=12)


@dataclass(slots=True, kw_only=True)
class Run:
    """How far an action on a set has come. Ids are of jobs; `after` is the last one that was dealt with."""

    verb: str
    user: str
    newest: int
    moment: str  # an ISO time
    total: int | None = None  # None: more than could be counted
    most: int | None = None  # None: all of them
    reason: str = ""
    spread_seconds: float | None = None
    more: dict[str, Any] = field(default_factory=dict)  # what else the verb is to be told, as JSON holds it
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    after: int = 0
    seen: int = 0
    steps: int = 0
    changed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    some: list[list[Any]] = field(default_factory=list)  # the first refused ones with their reasons
    work_seconds: float = 0.0
    finished: bool = False
    stopped: bool = False

    @classmethod
    def read(cls, token: str, *, verb: str, user: str) -> Run | None:
        """Return the run that a page of this user sends back; None where it is not theirs, too old or no run at all."""
        try:
            run = cls(**signing.loads(token, salt=SALT, max_age=LONGEST))
        except (signing.BadSignature, TypeError):
            return None
        return run if (run.verb, run.user) == (verb, user) else None

    @property
    def token(self) -> str:
        """The run as the page keeps it."""
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    @property
    def of(self) -> int | None:
        """How many jobs the set has, as far as that is known."""
        return self.total if self.most is None else min(self.most, self.total or self.most)

    @property
    def percent(self) -> int | None:
        """How much of the set is done; 100 only at the end."""
        return None if not self.of else 100 if self.finished else min(99, self.seen * 100 // self.of)

    @property
    def refusals(self) -> int:
        """How many jobs did not change."""
        return sum(self.refused.values())

    def step(self, rows: QuerySet[Job], act: Callable[..., Report], *, actor: Any) -> None:
        """Work on for about a second, or to the end. Raises PermissionDenied."""
        began, self.stopped = time.monotonic(), False
        self.steps += 1
        try:
            while not self.finished:
                ids, full = self._next(rows)
                self.finished = not full
                for start in range(0, len(ids), BATCH):
                    batch = ids[start : start + BATCH]
                    self._add(act(batch, actor=actor, **self._options()), batch)
                    if time.monotonic() - began >= STEP_SECONDS:
                        self.finished = self.finished and batch[-1] == ids[-1]
                        return
        finally:
            self.work_seconds += time.monotonic() - began

    def _next(self, rows: QuerySet[Job]) -> tuple[list[int], bool]:
        """Return the next ids, and whether there may be more behind them."""
        take = CHUNK if self.most is None else min(CHUNK, self.most - self.seen)
        # The primary knows what the last step has changed; a replica may not.
        moment = datetime.fromisoformat(self.moment)
        rows = within(rows.using(Job.objects.write_db), self.newest, moment)
        if "edit" in self.more:  # who is only edited stays in the set: a step sent again would edit it again
            rows = rows.filter(updated_at__lte=moment)
        ids = (
            list(rows.filter(pk__gt=self.after).order_by("pk").values_list("pk", flat=True)[:take]) if take > 0 else []
        )
        return ids, len(ids) == take == CHUNK

    def _options(self) -> dict[str, Any]:
        spread = {} if self.spread_seconds is None else {"spread": timedelta(seconds=self.spread_seconds)}
        return {"reason": self.reason, **spread}

    def _add(self, report: Report, batch: list[int]) -> None:
        self.after, self.seen, self.changed = batch[-1], self.seen + len(batch), self.changed + len(report.changed)
        for job_id, why in sorted(report.refused.items()):
            # Blockers differ from job to job: one line for all of them.
            kind = why.partition(" #")[0]
            kind = kind if kind in self.refused or len(self.refused) < KINDS else "…"
            self.refused[kind] = self.refused.get(kind, 0) + 1
            if len(self.some) < SOME:
                self.some.append([job_id, why])


def within(rows: QuerySet[Job], newest: int, moment: datetime) -> QuerySet[Job]:
    """Return what of these rows is of the set that was counted at a moment, when `newest` was the newest id."""
    return rows.filter(Q(finished_at__isnull=True) | Q(finished_at__lte=moment), pk__lte=newest)
