"""When an alert fires and when it is over: each rule's value against its levels and times, by what was before.

An incident is one time that one rule is broken by one subject. It is pending until it has lasted for the rule's
`for_seconds` (nobody hears of one that ends before), then firing, and resolved when the value was calm for
`clear_for_seconds`. Two messages an incident, however often it is looked at: one when it fires, one when it ends.
Nothing here writes: jobqueue.maintenance.alerts does, with all workers taking turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from jobqueue.alerting import Rule, number
from jobqueue.models import Incident
from jobqueue.redaction import mask_text

from .alert_subjects import SUBJECTS
from .alert_values import WHOLE, Look, Measured, Values

State = Incident.State
Change = Literal["", "opened", "dropped", "fired", "resolved"]

#: So many incidents of one rule at a time, the worst: a thousand silent workers are one trouble, not a thousand mails.
MOST_SUBJECTS: Final = 20
TEXT_CHARACTERS: Final = 1_000

_SOURCES: Final[Mapping[str, Callable[[Look, Rule], Values | None]]] = {**WHOLE, **SUBJECTS}


def measure(look: Look, rule: Rule, *, known: Collection[str] = ()) -> Values | None:
    """Return the rule's values by subject, None where they could not be read: then nothing changes.

    Of very many only the worst are returned, and those of `known` subjects, whose incidents are open.
    """
    found = _SOURCES[rule.source](look, rule)
    if found is None:
        look.unknown.add(rule.name)
        return None
    if len(found) <= MOST_SUBJECTS:
        return found
    worst = sorted(found.keys() - known, key=lambda subject: found[subject].value, reverse=not rule.below)
    told = {*known, *worst[: max(0, MOST_SUBJECTS - len(known))]}
    return {subject: found[subject] for subject in found if subject in told}


def worst(rule: Rule, values: Values | None) -> dict[str, Any] | None:
    """Return the worst of a rule's values as JSON, None where they could not be read; without any its value is None."""
    if values is None:
        return None
    pick = min if rule.below else max
    known = {subject: one.value for subject, one in values.items() if math.isfinite(one.value)}
    subject = pick(known, key=lambda each: known[each], default="")
    return {"value": known.get(subject), "subject": subject}


def in_order(rules: list[Rule]) -> list[Rule]:
    """Return the rules as they have to be measured: the one about what could not be read comes last."""
    return sorted(rules, key=lambda rule: (rule.source == "figures_unknown", rule.name))


def opened(
    rule: Rule, subject: str, measured: Measured | None, now: datetime, ended: datetime | None
) -> Incident | None:
    """Return a new incident, not saved, where the rule is broken and its last one is not too recent; else None."""
    if measured is None or not rule.is_broken(measured.value):
        return None
    if ended is not None and now - ended < timedelta(seconds=rule.cooldown_seconds):
        return None
    incident = Incident(rule=rule.name, subject=subject, state=State.PENDING, broken_since=now)
    _note(incident, rule, measured)
    _fire_if_due(incident, rule, now)
    return incident


def moved(incident: Incident, rule: Rule, measured: Measured | None, now: datetime) -> Change:
    """Bring an open incident up to date and return what became of it; no value means that the trouble is gone."""
    broken = measured is not None and rule.is_broken(measured.value)
    if measured is not None:
        incident.value = measured.value
    if incident.state == State.PENDING:
        if not broken or measured is None:
            return "dropped"
        _note(incident, rule, measured)
        return "fired" if _fire_if_due(incident, rule, now) else ""
    if measured is not None and not rule.is_calm(measured.value):
        incident.calm_since = None
        if broken:
            _note(incident, rule, measured)
        return ""
    incident.calm_since = incident.calm_since or now
    if now - incident.calm_since >= timedelta(seconds=rule.clear_for_seconds):
        return resolve(incident, now)
    return ""


def resolve(incident: Incident, now: datetime) -> Change:
    """End an incident, or drop one that nobody has heard of."""
    if incident.state == State.PENDING:
        return "dropped"
    incident.state, incident.resolved_at = State.RESOLVED, now
    return "resolved"


def is_muted(rule: Rule, now: datetime) -> bool:
    """Tell whether nobody wants to hear of the rule's incidents now."""
    return rule.muted_until is not None and rule.muted_until > now


def _fire_if_due(incident: Incident, rule: Rule, now: datetime) -> bool:
    if now - incident.broken_since < timedelta(seconds=rule.for_seconds):
        return False
    incident.state, incident.fired_at = State.FIRING, now
    return True


def _note(incident: Incident, rule: Rule, measured: Measured) -> None:
    incident.value, incident.threshold = measured.value, rule.threshold
    worse = min if rule.below else max
    incident.worst = measured.value if incident.worst is None else worse(incident.worst, measured.value)
    # Masked here once, for mail, chat, log and admin alike: an error's text may hold what a handler was given.
    text = mask_text(measured.text or f"{rule.name} is {number(measured.value)}")
    incident.text = f"{text[:TEXT_CHARACTERS]} (alert at {rule.limit})"
