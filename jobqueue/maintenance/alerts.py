"""Evaluate the alert rules, once for all workers: whoever comes first does it, the others find that it was done.

All of it is one transaction: the look, the incidents that it opens, moves and ends, and the jobs that send what is to
be told of them. It runs on the maintenance connection and imports no handler; the jobs `jobqueue.alert` do the sending.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connections, transaction

from jobqueue import sql
from jobqueue.alerting import ALERT, ATTEMPTS, Rule
from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.logs import Quietly
from jobqueue.managers.arriving import Arrival
from jobqueue.managers.inserting import insert_one
from jobqueue.managers.sessions import Session
from jobqueue.managers.waking import wake_after_commit
from jobqueue.models import Incident, Tick
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.alert_messages import FIRING, RESOLVED
from jobqueue.ops.alert_rules import rules_in_force
from jobqueue.ops.alert_sending import has_targets, tell
from jobqueue.ops.alert_values import Look
from jobqueue.ops.alerts import State, in_order, is_muted, measure, moved, opened, resolve, worst
from jobqueue.ops.worker_figures import read_workers

logger = logging.getLogger("jobqueue.alerts")

TURN: Final = "alerts"
#: A worker that lives has sent a message by then.
LATE: Final = timedelta(seconds=30)
STATEMENT_MILLISECONDS: Final = 5_000

_quietly: Final = Quietly(logger)


@dataclass(slots=True)
class Evaluation:
    """What one evaluation found: the incidents that fired and ended now, all that fire, and what could not be read."""

    at: datetime | None = None  # None: it was not this one's turn
    fired: list[Incident] = field(default_factory=list)
    resolved: list[Incident] = field(default_factory=list)
    firing: list[Incident] = field(default_factory=list)
    pending: list[Incident] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return what changed, by name."""
        return {"fired": len(self.fired), "resolved": len(self.resolved)}


class Alerts:
    """Evaluates on the maintenance connection, when ALERT_SECONDS have passed since anybody did."""

    name = "alerts"
    more = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self.interval_seconds = get_settings().ALERT_SECONDS

    def run_once(self) -> dict[str, int]:
        """Evaluate all rules, if it is this worker's turn."""
        every = timedelta(seconds=self.interval_seconds * 0.8)  # the loop is not on time to the millisecond
        with self._session.lent() as alias:
            return evaluate(alias, every=every).counts()


def evaluate(alias: str, *, every: timedelta = timedelta(0), hand_over: bool = True, dry: bool = False) -> Evaluation:
    """Look at everything and bring the incidents up to date, unless that was done within `every` or is being done.

    With `hand_over` jobs are enqueued for what is to be told; without it that is the caller's. A dry one keeps nothing.
    Raises django.db errors; nothing is changed then.
    """
    found = Evaluation()
    with transaction.atomic(using=alias):
        now = _take_turn(alias, every)
        if now is not None:
            found.at = now
            _evaluate(alias, now, found)
            if hand_over and not dry:
                _enqueue(alias)
        if dry:
            transaction.set_rollback(True, using=alias)
    if not dry:
        _tell(found)
    return found


def untold(alias: str) -> list[int]:
    """Return the ids of the incidents that have a message to be sent, oldest first."""
    return list(Incident.objects.using(alias).filter(untold=True).order_by("id").values_list("id", flat=True))


def overdue(alias: str) -> list[int]:
    """Return the ids of the incidents whose message no worker has sent in time, or none can: oldest first."""
    if not any(worker.alive and not worker.stopping for worker in read_workers(alias)):
        return untold(alias)
    late = StatementTimestamp() - LATE
    rows = Incident.objects.using(alias).filter(untold=True).exclude(fired_at__gt=late).exclude(resolved_at__gt=late)
    return list(rows.order_by("id").values_list("id", flat=True))


def _take_turn(alias: str, every: timedelta) -> datetime | None:
    with connections[alias].cursor() as cursor:
        # Behind a pooler nothing of the connection's own limits is left.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(STATEMENT_MILLISECONDS)])
        params: dict[str, Any] = {"name": TURN, "every": every}
        cursor.execute(sql.TAKE_TURN, params)
        row = cursor.fetchone()
    return None if row is None else row[0]


def _evaluate(alias: str, now: datetime, found: Evaluation) -> None:
    layers = rules_in_force(alias)
    rules = {each.rule.name: each.rule for each in layers if each.rule.enabled}
    found.problems = [problem for each in layers for problem in each.problems]
    look, targets = Look(alias), has_targets()
    incidents = _Incidents(alias, rules.values(), now)
    for rule in in_order(list(rules.values())):
        known = incidents.of(rule.name)
        values = measure(look, rule, known={*known, *incidents.held.get(rule.name, {})})
        found.seen[rule.name] = worst(rule, values)
        if values is None:
            continue
        for subject in sorted({*values, *known} - incidents.held.get(rule.name, {}).keys()):
            own = rule.for_subject(subject)
            incident = known.get(subject)
            if own is None:
                change = incident and resolve(incident, now)
            elif incident is None:
                incident = opened(own, subject, values.get(subject), now, incidents.ended.get((rule.name, subject)))
                change = "opened"
            else:
                change = moved(incident, own, values.get(subject), now)
            if incident is not None:
                _keep(incident, change or "", rule, now, targets, found, alias)
    for incident in incidents.without(rules):
        _keep(incident, resolve(incident, now), None, now, targets, found, alias)
    for each in incidents.held.values():
        for incident in each.values():
            (found.firing if incident.state == State.FIRING else found.pending).append(incident)
    found.unknown = sorted({*look.unknown, *look.snapshot.unknown})
    # In the row that this look holds anyway, so that a page need not measure anything.
    Tick.objects.using(alias).filter(name=TURN).update(seen=found.seen)


class _Incidents:
    """The open incidents by rule, and when the last one of each rule and subject ended, as far as that matters.

    Whoever sends of an incident holds its row for as long as a mail server takes. Such a one is `held`, for the next
    look: to store it would wait, and then undo that it was told. The others are held by this look until its end.
    """

    def __init__(self, alias: str, rules: Iterable[Rule], now: datetime) -> None:
        rows = Incident.objects.using(alias)
        still = rows.filter(state__in=(State.PENDING, State.FIRING)).order_by("id")
        ours = list(still.select_for_update(skip_locked=True, no_key=True))
        self._open = _by_rule(ours)
        self.held = _by_rule(still.exclude(pk__in=[incident.pk for incident in ours]))
        longest = max((rule.cooldown_seconds for rule in rules), default=0)
        ended = rows.filter(state=State.RESOLVED, resolved_at__gt=now - timedelta(seconds=longest)).order_by("id")
        self.ended: dict[tuple[str, str], datetime | None] = {
            (rule, subject): at for rule, subject, at in ended.values_list("rule", "subject", "resolved_at")
        }

    def of(self, rule: str) -> dict[str, Incident]:
        """Return the open incidents of a rule by subject."""
        return self._open.get(rule, {})

    def without(self, rules: Mapping[str, Rule]) -> list[Incident]:
        """Return the open incidents whose rule is switched off or gone."""
        return [incident for name, each in self._open.items() if name not in rules for incident in each.values()]


def _by_rule(incidents: Iterable[Incident]) -> dict[str, dict[str, Incident]]:
    found: dict[str, dict[str, Incident]] = {}
    for incident in incidents:
        found.setdefault(incident.rule, {})[incident.subject] = incident
    return found


def _keep(
    incident: Incident, change: str, rule: Rule | None, now: datetime, targets: bool, found: Evaluation, alias: str
) -> None:
    """Store an incident as it is now, and note what became of it."""
    if change == "dropped":
        incident.delete(using=alias)
        return
    if incident.state == State.PENDING:
        found.pending.append(incident)
    elif incident.state == State.FIRING:
        found.firing.append(incident)
        if incident.fired_at == now:
            found.fired.append(incident)
        # Also where it fired while the rule was muted: whoever comes back is told what still lasts.
        if incident.fired_told_at is None and targets and not (rule and is_muted(rule, now)):
            incident.untold = True
    else:
        found.resolved.append(incident)
        # The end of what nobody was told of is no news.
        incident.untold = targets and (incident.untold or incident.fired_told_at is not None)
    incident.save(using=alias)


def _enqueue(alias: str) -> None:
    """Enqueue a job for each incident that has something to be told, unless there is one already."""
    connection, ids = connections[alias], untold(alias)
    for incident_id in ids:
        payload = json.dumps({"incident": incident_id})
        insert_one(
            connection,
            Arrival(
                job_type=ALERT,
                queue=INTERNAL_QUEUE,
                priority=0,
                max_attempts=ATTEMPTS,
                value={"incident": incident_id},
                payload=payload,
                payload_bytes=len(payload),
                dedupe_key=f"{ALERT}:{incident_id}",
            ),
        )
    if ids:
        wake_after_commit(connection, [INTERNAL_QUEUE])


def _tell(found: Evaluation) -> None:
    for incident in found.fired:
        tell(incident, FIRING)
    for incident in found.resolved:
        tell(incident, RESOLVED)
    for problem in found.problems:
        _quietly.warning("alert rule left out in part: %s", problem)
