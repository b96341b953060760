"""Times on the command line: "90", "90s", "15m", "2h", "7d"."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import Final

UNITS: Final = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FORM: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)", re.ASCII)


def duration(text: str) -> timedelta:
    """Return the time that an option names. Raises argparse.ArgumentTypeError, which the command reports."""
    found = FORM.fullmatch(text.strip().lower())
    try:
        if found is None:
            raise ValueError
        return timedelta(**{UNITS[found[2]]: float(found[1])})
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time: write 90, 90s, 15m, 2h or 7d"
        raise argparse.ArgumentTypeError(msg) from error
