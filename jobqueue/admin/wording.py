"""How the console puts figures and texts: times, durations, sizes, amounts, and errors cut to a line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from django.contrib import admin
from django.utils import timezone
from django.utils.translation import gettext as _

EMPTY: Final = "-"
ERROR_CHARACTERS: Final = 120
LEAST_PLACES: Final = 2
#: From 1024 bytes on, each 1024 of the one before.
UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def shortened(text: str | None, characters: int = ERROR_CHARACTERS) -> str:
    """Return the first line of a text, cut with an ellipsis; `-` for none."""
    line = next(iter((text or "").strip().splitlines()), "")
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def instant(value: datetime | None, zone: tzinfo | None = None) -> str:
    """Return a time in a zone (None: the current one), to the second, as nobody misreads it; `-` for none."""
    return EMPTY if value is None else f"{timezone.localtime(value, zone):%Y-%m-%d %H:%M:%S}"


def instant_of(name: str, label: Any) -> Callable[[Any, Any], str]:
    """Return a method for a ModelAdmin that shows a time of the row."""

    @admin.display(description=label)
    def shown(self: Any, row: Any) -> str:
        return instant(getattr(row, name))

    return shown


def span(value: timedelta | float | None) -> str:
    """Return a duration in its two largest units: 0.25 s, 3 min 20 s, 2 d 4 h; `-` for none."""
    if value is None:
        return EMPTY
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if abs(seconds) < 60:
        return _("%(seconds)s s") % {"seconds": f"{seconds:.2f}".rstrip("0").rstrip(".")}
    if seconds < 0:  # a clock that is behind
        return f"-{span(-seconds)}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    return _("%(days)d d %(hours)d h") % {"days": hours // 24, "hours": hours % 24}


def brief(value: timedelta | float | None) -> str:
    """Return a duration without the fractions of a second that tell nothing: from ten seconds on."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return span(seconds if seconds is None or abs(seconds) < 10 else round(seconds))


def size(value: int | None) -> str:
    """Return a number of bytes in people's units; `-` for none."""
    if value is None:
        return EMPTY
    if value < 1024:
        return _("%(bytes)d bytes") % {"bytes": value}
    power = min(len(UNITS), (value.bit_length() - 1) // 10)
    return f"{value / 1024**power:.1f} {UNITS[power - 1]}"


def money(amount: Decimal | None) -> str:
    """Return an exact amount without needless zeros, with two places at least; `-` for none."""
    if amount is None:
        return EMPTY
    whole, _point, places = f"{amount:f}".partition(".")
    return f"{whole}.{places.rstrip('0').ljust(LEAST_PLACES, '0')}"
