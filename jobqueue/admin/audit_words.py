"""How the audit puts what was done: the action in words, what changed from what to what, and the rest of its detail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobqueue.redaction import mask_json

from .wording import instant

Text = str | Promise

ACTIONS: Final[Mapping[str, Text]] = {
    "retry": _("Retry"),
    "discard": _("Discard"),
    "cancel": _("Cancel"),
    "release": _("Release"),
    "mark_dead": _("Mark dead"),
    "edit_payload": _("Edit and retry"),
    "edit_field": _("Edit a field"),
    "clone": _("Clone"),
    "unmask": _("Show hidden values"),
    "hand_over": _("Hand over a group"),
    "note_group": _("Note on a group"),
    "mute_group": _("Mute a group"),
    "pause_queue": _("Pause a queue"),
    "resume_queue": _("Resume a queue"),
    "change_alert": _("Change an alert rule"),
    "mute_alert": _("Mute an alert rule"),
    "unmute_alert": _("Unmute an alert rule"),
    "ask_stack": _("Ask for a stack"),
    "kill_job": _("Kill a job"),
    "drain_worker": _("Drain a worker"),
    "stop_worker": _("Stop a worker"),
    "export_audit": _("Download the audit"),
    "open": pgettext_lazy("audit", "Open a page"),
}

#: Of an edit of many jobs so many are shown.
JOBS: Final = 50
LONG: Final = 80

#: What an action makes of each of its jobs: it is the same for all of them, so no row repeats it.
MOVES: Final[Mapping[str, tuple[Text, Text]]] = {
    "retry": (_("dead"), _("pending or scheduled")),
    "discard": (_("dead"), _("cancelled")),
    "cancel": (_("waiting or running"), _("cancelled, or asked to stop")),
    "release": (_("running"), _("pending")),
    "mark_dead": (_("running"), _("dead")),
}

KEYS: Final[Mapping[str, Text]] = {
    "enabled": _("enabled"),
    "threshold": _("threshold"),
    "for_seconds": _("fires after so many seconds"),
    "cooldown_seconds": _("is quiet for so many seconds afterwards"),
    "muted_until": _("muted until"),
    "muted_rate": _("shown again from twice so many a day"),
    "definition": _("definition"),
    "payload": _("payload"),
    "until": _("until"),
    "of": _("of job"),
    "clone": _("new job"),
    "permission": _("permission that is missing"),
    "method": _("method"),
    "path": _("address of the page"),
    "format": _("format"),
    "filters": _("filters"),
    "edit": _("edit"),
    "field": _("field"),
    "put_back": _("put back"),
    "to": _("new name"),
    "note": _("note"),
    "assignee": _("in the hands of"),
}


class Change(NamedTuple):
    """One thing that changed from `before` to `now`, or, without a `before`, is told."""

    what: Text
    before: str | None
    now: str

    @property
    def is_long(self) -> bool:
        """Tell whether it needs lines of its own."""
        return any("\n" in text or len(text) > LONG for text in (self.before or "", self.now))


def action_label(name: str) -> Text:
    """Return an action in words; the name itself where it is not one of ours."""
    return ACTIONS.get(name, name)


def changes(action: str, refused: bool, detail: Any) -> list[Change]:
    """Return what an action changed and what else is kept of it, secrets hidden."""
    found = []
    if action in MOVES and not refused:
        found.append(Change(_("status of each job"), *map(str, MOVES[action])))
    if detail is None:
        return found
    if not isinstance(detail, dict):
        return [*found, Change(_("detail"), None, _text(mask_json(detail)))]
    jobs = detail.get("jobs")
    if isinstance(jobs, dict):
        detail = {key: value for key, value in detail.items() if key != "jobs"} | dict(islice(jobs.items(), JOBS))
    for key, value in mask_json(detail).items():
        label = f"#{key}" if key.isdecimal() else KEYS.get(key, key)
        if isinstance(value, dict) and value and value.keys() <= {"from", "to"}:
            found.append(Change(label, _text(value.get("from")), _text(value.get("to"))))
        else:
            found.append(Change(label, None, _text(value)))
    if isinstance(jobs, dict) and len(jobs) > JOBS:
        found.append(Change("…", None, str(_("and so on; a download has them all"))))
    return found


def _text(value: Any) -> str:
    """Return a value as people read it: times in the current zone, JSON with its lines."""
    if value is None or value == "":
        return str(_("nothing"))
    if isinstance(value, bool):
        return str(_("yes") if value else _("no"))
    if isinstance(value, str):
        try:
            when = parse_datetime(value) if len(value) > 18 else None
        except ValueError:
            when = None
        return value if when is None or when.tzinfo is None else instant(when)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= LONG else json.dumps(value, indent=4, ensure_ascii=False)
