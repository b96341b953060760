"""What is told of an incident: a firing and a resolved message, as a mail, as JSON and as a chat's message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from jobqueue.alerting import number
from jobqueue.conf import get_settings
from jobqueue.models import Incident
from jobqueue.redaction import mask_text

from .alert_words import lasting

Event = Literal["alert.firing", "alert.resolved"]

FIRING: Final = "alert.firing"
RESOLVED: Final = "alert.resolved"
MARKS: Final = {FIRING: "FIRING", RESOLVED: "RESOLVED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """One message. `data` is the JSON of a webhook: numbers in the rule's unit, times as ISO 8601 in UTC."""

    event: Event
    subject: str
    text: str
    data: dict[str, Any]

    @property
    def body(self) -> str:
        """The text of a mail."""
        link = self.data["link"]
        return f"{self.text}\n" if link is None else f"{self.text}\n\n{link}\n"

    def slack(self) -> dict[str, Any]:
        """Return the message as Slack's incoming webhooks take it, and chats that are compatible with them."""
        link = self.data["link"]
        parts = [f"*{_escaped(self.subject)}*", _escaped(self.text), *([f"<{link}|Open the incident>"] if link else [])]
        return {"text": "\n".join(parts)}


def firing_message(incident: Incident) -> AlertMessage:
    """Return the message that says that something is wrong."""
    return _message(FIRING, incident, incident.text)


def resolved_message(incident: Incident) -> AlertMessage:
    """Return the message that says that it is over."""
    lasted = _lasted(incident)
    worst = "" if incident.worst is None else f", {number(incident.worst)} at worst"
    return _message(RESOLVED, incident, f"over after {lasting(lasted or 0)}{worst}. It was: {incident.text}")


def untold_messages(incident: Incident) -> list[AlertMessage]:
    """Return what nobody has been told yet of an incident, in order; none of one that is not to be told."""
    if not incident.untold or incident.fired_at is None:
        return []
    messages = [firing_message(incident)] if incident.fired_told_at is None else []
    if incident.state == Incident.State.RESOLVED and incident.resolved_told_at is None:
        messages.append(resolved_message(incident))
    return messages


def database_message(error: str, at: datetime, *, over: bool = False) -> AlertMessage:
    """Return the message about the one trouble that cannot be kept as an incident: the database does not answer."""
    text = mask_text(error)
    data: dict[str, Any] = {
        **dict.fromkeys(("incident", "value", "worst", "threshold", "seconds", "resolved_at")),
        "rule": "database",
        "subject": "",
        "state": "resolved" if over else "firing",
        "text": text,
        "since": at.isoformat(),
        "fired_at": at.isoformat(),
        "link": get_settings().ALERT_LINK,
    }
    event: Event = RESOLVED if over else FIRING
    return AlertMessage(event=event, subject=f"[{MARKS[event]}] jobqueue: database", text=text, data=data)


def _message(event: Event, incident: Incident, text: str) -> AlertMessage:
    name = f"{incident.rule} {incident.subject}".strip()
    data = {
        "incident": incident.pk,
        "rule": incident.rule,
        "subject": incident.subject,
        "state": "firing" if event == FIRING else "resolved",
        "value": incident.value,
        "worst": incident.worst,
        "threshold": incident.threshold,
        "text": text,
        "since": _iso(incident.broken_since),
        "fired_at": _iso(incident.fired_at),
        "resolved_at": _iso(incident.resolved_at) if event == RESOLVED else None,
        "seconds": _lasted(incident) if event == RESOLVED else None,
        "link": _link(incident),
    }
    return AlertMessage(event=event, subject=f"[{MARKS[event]}] jobqueue: {name}", text=text, data=data)


def _link(incident: Incident) -> str | None:
    link = get_settings().ALERT_LINK
    return None if link is None else f"{link.rstrip('/')}/incident/{incident.pk}/change/"


def _lasted(incident: Incident) -> float | None:
    if incident.resolved_at is None:
        return None
    return (incident.resolved_at - incident.broken_since).total_seconds()


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _escaped(text: str) -> str:
    """Return a text without what Slack would take for a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
