"""How alerts put numbers, durations and errors: in plain words, the same in mails, chats, logs and the admin."""

from __future__ import annotations

from typing import Final

ERROR_CHARACTERS: Final = 200


def lasting(seconds: float) -> str:
    """Return a duration in its largest units: 45 s, 6 min, 1 h 30 min, 2 d 4 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" if rest == 0 else f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h" if minutes == 0 else f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d" if hours == 0 else f"{days} d {hours} h"


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
