"""What each alert rule looks at: its value now, by subject, with a sentence of the numbers behind it.

Most values are figures of one snapshot that all rules share; what the snapshot does not have is read by an index, under
a time limit. A value that could not be read is unknown: the rule then neither fires nor ends.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from django.db import DatabaseError, connections
from django.utils.functional import cached_property

from jobqueue.alerting import HOUR, Rule, number
from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.logs import Quietly
from jobqueue.models import Attempt, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .alert_words import lasting, plural, shortly
from .budgets import BudgetState, budget_states
from .costs import cost_sums, total_cost
from .counts import COUNT_CAP, UNIT
from .gauges import count_over, gauge_over_workers
from .limited import read_within
from .snapshot import Snapshot, take_snapshot

logger = logging.getLogger("jobqueue.alerts")

T = TypeVar("T")

#: No page waits for it, and a busy server is when an alert matters most: so many times as long as others give it.
PATIENCE: Final = 6.0
READ_LIMIT: Final = timedelta(seconds=1)
#: All reads of one look beside the snapshot: so long does a worker's maintenance do nothing else.
ALL_READS_SECONDS: Final = 5.0
SHOWN: Final = 3
NEWEST: Final = 200

_quietly: Final = Quietly(logger)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, and what there is to say about it."""

    value: float
    text: str


#: By subject: a queue, a type, a worker, a budget, or "" for all together. A subject without trouble may be left out.
Values = Mapping[str, Measured]


class Look:
    """One look at everything, that all rules share. `unknown` are the rules whose value could not be read."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.unknown: set[str] = set()
        self._left = ALL_READS_SECONDS

    @cached_property
    def snapshot(self) -> Snapshot:
        """The figures of the moment, of the database that is written to."""
        return take_snapshot(Job.objects.db_manager(self.alias), fresh=True, patience=PATIENCE)

    @cached_property
    def budgets(self) -> list[BudgetState] | None:
        """The budgets, None where their sums take too long."""
        if not get_settings().BUDGETS:
            return []
        return self.read(lambda: budget_states(self.alias))

    def read(self, query: Callable[[], T]) -> T | None:
        """Return what the query returns, None where it takes too long or fails: the other rules go on watching."""
        if self._left <= 0:
            return None
        began = time.monotonic()
        try:
            return read_within(self.alias, query, READ_LIMIT, by_index=True)
        except DatabaseError as error:
            raw = connections[self.alias].connection
            if raw is None or raw.closed:
                raise
            _quietly.warning("alert value not read error=%s", str(error).strip().split("\n")[0])
            return None
        finally:
            self._left -= time.monotonic() - began


def _since(rule: Rule) -> Any:
    return StatementTimestamp() - timedelta(seconds=rule.window_seconds)


def _whole(value: float | None, text: Callable[[], str], rule: Rule) -> Values | None:
    """Return the one value of a rule without subjects; the sentence is made only where somebody may read it."""
    if value is None:
        return None
    return {"": Measured(value, "" if rule.is_calm(value) else text())}


def _figure(look: Look, rule: Rule, name: str, read: Callable[[], float]) -> float | None:
    """Return a figure of the snapshot where the window is its hour, else what is read for the rule's own window."""
    if rule.window_seconds == HOUR:
        value = getattr(look.snapshot, name)
        return None if value is None else float(value)
    return look.read(read)


def _deadlines(look: Look, rule: Rule) -> Values | None:
    late = Attempt.objects.using(look.alias).filter(outcome=Outcome.DEADLINE, finished_at__gt=_since(rule))
    late = late.exclude(job__queue=INTERNAL_QUEUE).order_by("outcome", "finished_at")

    def text() -> str:
        types = look.read(lambda: Counter(late.reverse().values_list("job__job_type", flat=True)[:NEWEST]))
        what = plural(int(value or 0), "attempt", COUNT_CAP)
        return f"{what} ran into their deadline within the last {lasting(rule.window_seconds)}{_by_type(types)}"

    value = _figure(look, rule, "deadline_1h", lambda: float(late[:COUNT_CAP].count()))
    return _whole(value, text, rule)


def _dead(look: Look, rule: Rule) -> Values | None:
    dead = Job.objects.using(look.alias).filter(status=Status.DEAD, finished_at__gt=_since(rule))
    dead = dead.exclude(queue=INTERNAL_QUEUE).order_by("status", "finished_at", "id")

    def text() -> str:
        newest = look.read(lambda: list(dead.reverse().values_list("job_type", "error_class", "last_error")[:NEWEST]))
        what = plural(int(value or 0), "dead letter", COUNT_CAP)
        types = None if newest is None else Counter(row[0] for row in newest)
        error = f"; the newest: {newest[0][1] or ''}: {shortly(newest[0][2])}" if newest else ""
        return f"{what} within the last {lasting(rule.window_seconds)}{_by_type(types)}{error}"

    value = _figure(look, rule, "dead_1h", lambda: float(dead[:COUNT_CAP].count()))
    return _whole(value, text, rule)


def _cost(look: Look, rule: Rule) -> Values | None:
    since = _since(rule)

    def text() -> str:
        sums = look.read(lambda: [row for row in cost_sums(since, using=look.alias) if row.unit == UNIT]) or []
        dearest = sorted(sums, key=lambda row: -row.amount)[:SHOWN]
        which = ", ".join(f"{row.job_type} {number(float(row.amount))}" for row in dearest)
        return f"{number(value or 0)} {UNIT} were spent within the last {lasting(rule.window_seconds)}: {which}"

    value = _figure(look, rule, "cost_1h_usd", lambda: float(total_cost(since, unit=UNIT, using=look.alias)))
    return _whole(value, text, rule)


def _stuck(look: Look, rule: Rule) -> Values | None:
    value = look.snapshot.stuck_running

    def text() -> str:
        stuck = Job.objects.db_manager(look.alias).stuck().order_by("id")
        some = look.read(lambda: list(stuck.values_list("id", "job_type")[:SHOWN])) or []
        which = ", ".join(f"#{job_id} {job_type}" for job_id, job_type in some)
        what = plural(value or 0, "running job", COUNT_CAP)
        return f"{what} stuck: the lease ran out, or the run lasts too long: {which}"

    return _whole(value, text, rule)


def _oldest_snapshot(look: Look, rule: Rule) -> Values | None:
    database = look.snapshot.database
    value, holder = database.oldest_snapshot_sec, database.oldest_snapshot_by

    def text() -> str:
        who = "somebody" if holder is None else f"{holder.kind} {holder.name!r} of {holder.user}, {holder.state}"
        pid = "" if holder is None or holder.pid is None else f", pid {holder.pid}"
        dead = next((table.dead_rows for table in database.tables if table.table == "jobqueue_job"), None)
        rows = "" if dead is None else f"; {dead} dead rows in jobqueue_job"
        return f"a snapshot is held for {lasting(value or 0)} by {who}{pid}{rows}"

    return _whole(value, text, rule)


def _unknown(look: Look, rule: Rule) -> Values | None:
    names = sorted({*look.snapshot.unknown, *look.unknown})
    error = f" ({look.snapshot.error})" if look.snapshot.error else ""
    return _whole(len(names), lambda: f"these figures cannot be read in time: {', '.join(names)}{error}", rule)


def _gauge(look: Look, rule: Rule) -> Values | None:
    aggregate: Any = rule.aggregate
    # In a list: without a living worker that has the gauge there is no value, which is not the same as not knowing.
    found = look.read(lambda: [gauge_over_workers(rule.series, rule.labels, aggregate, using=look.alias)])
    if found is None or found[0] is None:
        return None if found is None else {}
    value = found[0]
    text = f"{rule.aggregate} of {_series(rule)} over the living workers is {number(value)}"
    return _whole(value, lambda: text, rule)


def _counter(look: Look, rule: Rule) -> Values | None:
    window = timedelta(seconds=rule.window_seconds)
    value = look.read(lambda: count_over(rule.series, rule.labels, window, using=look.alias))
    text = f"{_series(rule)} counted {number(value or 0)} within the last {lasting(rule.window_seconds)}"
    return _whole(value, lambda: text, rule)


def _series(rule: Rule) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(rule.labels.items()))
    return f"{rule.series}{{{labels}}}" if labels else rule.series


def _by_type(types: Mapping[Any, int] | None) -> str:
    if not types:
        return ""
    ordered = sorted(types.items(), key=lambda item: (-item[1], str(item[0])))
    return ": " + listed((f"{job_type or 'pruned'} {count}" for job_type, count in ordered), len(ordered))


def listed(words: Iterable[str], count: int) -> str:
    """Return the first few of some words, with an ellipsis where there are more."""
    shown = [word for word, _ in zip(words, range(SHOWN), strict=False)]
    return ", ".join(shown) + (", …" if count > SHOWN else "")


WHOLE: Final[Mapping[str, Callable[[Look, Rule], Values | None]]] = {
    "deadline_1h": _deadlines,
    "dead_1h": _dead,
    "cost_1h_usd": _cost,
    "stuck_running": _stuck,
    "oldest_snapshot_sec": _oldest_snapshot,
    "figures_unknown": _unknown,
    "gauge": _gauge,
    "counter": _counter,
}
