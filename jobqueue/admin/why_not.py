"""Why a job was refused, in the language of whoever reads it.

The operations say it in English, as exceptions, logs and runs keep it; what is not known here is shown as it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue.states import Status

SENTENCES: Final[Mapping[str, Any]] = {
    "no such job": gettext_lazy("no such job"),
    "there is no such job": gettext_lazy("no such job"),
    "is not stuck: its worker holds the lease": gettext_lazy("is not stuck: its worker holds the lease"),
    "is locked by another transaction: try again": gettext_lazy("is locked by another transaction: try again"),
    "it is locked by another transaction: try again": gettext_lazy("is locked by another transaction: try again"),
    "its key was taken meanwhile": gettext_lazy("its key was taken meanwhile"),
    "it has changed since it was read": gettext_lazy("it has changed since it was read"),
    "has no such field": gettext_lazy("has no such field"),
    "has that value already": gettext_lazy("has that value already"),
    "has a field of the new name already": gettext_lazy("has a field of the new name already"),
    "has no text there": gettext_lazy("has no text there"),
    "does not have that text": gettext_lazy("does not have that text"),
    "has hidden values in that text": gettext_lazy("has hidden values in that text"),
    "has a payload that Python cannot read": gettext_lazy("has a payload that Python cannot read"),
}
STATUS: Final = re.compile(r"(?:is|its status is) ([A-Z]+)")
BLOCKED: Final = re.compile(r"(?:is )?blocked by(?: #(\d+))?")
TRANSITION: Final = re.compile(r"job \d+: cannot \w+, (.+)", re.DOTALL)
EDITED: Final = re.compile(r"was edited, but (.+)", re.DOTALL)
INVALID: Final = re.compile(r"would be refused: (.+)", re.DOTALL)


def why_not(said: object) -> str:
    """Return what operations said of a job that they refused, translated as far as it is known."""
    text = str(said)
    if text in SENTENCES:
        return str(SENTENCES[text])
    if match := TRANSITION.fullmatch(text):
        return why_not(match[1])
    if (match := STATUS.fullmatch(text)) and match[1] in Status.__members__:
        return _("is %(status)s") % {"status": Status[match[1]].label}
    if match := BLOCKED.fullmatch(text):
        return _("blocked by #%(id)s") % {"id": match[1]} if match[1] else _("blocked by another job")
    if match := EDITED.fullmatch(text):
        return _("was edited, but: %(why)s") % {"why": why_not(match[1])}
    if match := INVALID.fullmatch(text):
        return _("would be refused: %(why)s") % {"why": match[1]}
    return text
