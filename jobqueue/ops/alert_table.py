"""The alert rules as a page shows them: what each said when the workers last looked, what is open, what is muted.

Nothing is measured here: the workers do that every few seconds, and a page that did it, too, would cost more than it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from django.db import connections
from django.db.models import BigIntegerField, TextField, Value

from jobqueue.alerting import Rule
from jobqueue.conf import get_settings
from jobqueue.models import Incident, Tick
from jobqueue.models.expressions import StatementTimestamp

from .alert_rules import Layered, rules_in_force
from .alerts import is_muted

RuleState = Literal["firing", "pending", "unknown", "calm", "off"]

#: In this order: what somebody has to look at comes first.
STATES: Final[tuple[RuleState, ...]] = ("firing", "pending", "unknown", "calm", "off")
OPEN: Final = (Incident.State.PENDING, Incident.State.FIRING)
TICK: Final = "alerts"
#: What the overview tells of an incident.
SHOWN: Final = ("id", "rule", "subject", "text", "fired_at")
#: A look that is older, or than three intervals, says nothing about now.
LATE: Final = timedelta(minutes=1)
LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: its state, the worst value of the last look, and how many incidents fire and are pending."""

    layered: Layered
    state: RuleState
    value: float | None
    subject: str
    firing: int
    pending: int
    muted: bool

    @property
    def rule(self) -> Rule:
        """The rule itself."""
        return self.layered.rule


@dataclass(frozen=True, slots=True)
class RuleTable:
    """All rules, the worst states first; `looked_at` is when the workers last evaluated them, None: never."""

    rows: tuple[RuleRow, ...]
    now: datetime
    looked_at: datetime | None

    @property
    def is_late(self) -> bool:
        """Tell whether nobody evaluates the rules."""
        return _is_late(self.now, self.looked_at)


class Look(NamedTuple):
    """How long ago the rules were last looked at, None: never, and whether that is so long that nobody does."""

    age: timedelta | None
    late: bool


def last_look(using: str) -> Look:
    """Return when somebody last looked at the rules, by one statement."""
    tick = Tick.objects.using(using).filter(name=TICK).values("at", now=StatementTimestamp()).first()
    return Look(None, True) if tick is None else Look(tick["now"] - tick["at"], _is_late(tick["now"], tick["at"]))


def firing_and_look(using: str, *, most: int) -> tuple[list[Incident], Look]:
    """Return the incidents that began to fire last, the newest first, and when somebody last looked: by one statement.

    Of an incident only what is shown is read.
    """
    now = StatementTimestamp()
    firing = Incident.objects.using(using).filter(state=Incident.State.FIRING).order_by("-fired_at", "-id")
    nothing, number = Value("", TextField()), Value(None, BigIntegerField())
    tick = Tick.objects.using(using).filter(name=TICK).values_list(number, nothing, nothing, nothing, "at", now)
    rows = list(firing.values_list(*SHOWN, now)[:most].union(tick, all=True))
    look = next((Look(at - then, _is_late(at, then)) for key, *_, then, at in rows if key is None), Look(None, True))
    found = [Incident.from_db(using, SHOWN, row[:-1]) for row in rows if row[0] is not None]
    # A row written by hand may have no time: it comes first, as in the statement.
    return sorted(found, key=lambda one: (one.fired_at or LAST, one.pk), reverse=True), look


def read_rules(using: str) -> RuleTable:
    """Return the rules in force, the worst first, by three statements."""
    tick = Tick.objects.using(using).filter(name=TICK).values("at", "seen", now=StatementTimestamp()).first()
    now = _now(using) if tick is None else tick["now"]
    looked_at = None if tick is None else tick["at"]
    seen: Mapping[str, Any] = {} if _is_late(now, looked_at) or tick is None else tick["seen"] or {}
    states = Counter(Incident.objects.using(using).filter(state__in=OPEN).values_list("rule", "state"))
    rows = [_row(each, states, seen, now) for each in rules_in_force(using)]
    rows.sort(key=lambda row: (STATES.index(row.state), row.rule.name))
    return RuleTable(tuple(rows), now, looked_at)


def _row(layered: Layered, states: Mapping[Any, int], seen: Mapping[str, Any], now: datetime) -> RuleRow:
    rule = layered.rule
    firing, pending = (states.get((rule.name, state), 0) for state in (Incident.State.FIRING, Incident.State.PENDING))
    known = seen.get(rule.name)
    return RuleRow(
        layered=layered,
        state=_state(rule, firing, pending, is_known=known is not None),
        value=known["value"] if known else None,
        subject=known["subject"] if known else "",
        firing=firing,
        pending=pending,
        muted=is_muted(rule, now),
    )


def _state(rule: Rule, firing: int, pending: int, *, is_known: bool) -> RuleState:
    if not rule.enabled:
        return "off"
    if firing or pending:
        return "firing" if firing else "pending"
    return "calm" if is_known else "unknown"


def _is_late(now: datetime, looked_at: datetime | None) -> bool:
    patience = max(LATE, timedelta(seconds=3 * get_settings().ALERT_SECONDS))
    return looked_at is None or now - looked_at > patience


def _now(using: str) -> datetime:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now
