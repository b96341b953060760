"""How alerts put numbers, durations and errors: in plain words, the same in mails, chats, logs and the admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.utils.translation import gettext, gettext_noop

ERROR_CHARACTERS: Final = 200


#: Parts of durations, from the largest unit of each on; the whole ones are without their rest.
SECONDS: Final = gettext_noop("%(seconds)s s")
MINUTES: Final = (gettext_noop("%(minutes)d min"), gettext_noop("%(minutes)d min %(seconds)d s"))
HOURS: Final = (gettext_noop("%(hours)d h"), gettext_noop("%(hours)d h %(minutes)d min"))
DAYS: Final = (gettext_noop("%(days)d d"), gettext_noop("%(days)d d %(hours)d h"))


def lasting(seconds: float, say: Callable[[str], str] = str) -> str:
    """Return a duration in its largest units: 45 s, 6 min, 1 h 30 min, 2 d 4 h; `say` translates."""
    whole = round(seconds)
    if whole < 60:
        return say(SECONDS) % {"seconds": f"{seconds:.3g}" if seconds < 10 else whole}
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return say(MINUTES[rest > 0]) % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return say(HOURS[minutes > 0]) % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return say(DAYS[hours > 0]) % {"days": days, "hours": hours}


def spoken(seconds: float) -> str:
    """Return a duration in the language of whoever reads it; what is stored or sent has lasting()."""
    return lasting(seconds, gettext)


def plural(count: int, noun: str, cap: int) -> str:
    """Return a count with its noun: 1 attempt, 7 attempts, at least 10000 attempts."""
    least = "at least " if count >= cap else ""
    return f"{least}{count} {noun}{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share of 0 to 1 in per cent."""
    return f"{share * 100:.3g} %"


def shortly(text: str | None) -> str:
    """Return the first line of an error, cut with an ellipsis."""
    line = next(iter((text or "").strip().splitlines()), "")
    return line if len(line) <= ERROR_CHARACTERS else f"{line[: ERROR_CHARACTERS - 1]}…"
