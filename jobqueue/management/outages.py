"""Remember on this machine that the database was away and that somebody was told: there is no other place for it.

A small file in the temp directory, of this user alone, named for the database. Without it a monitor that runs every
minute would tell of one outage every minute, and never of its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Outage:
    """Since when the database has been away, and whether somebody was told."""

    since: datetime
    told: bool


def default_path(database: Mapping[str, Any]) -> Path:
    """Return where the outages of a database (an entry of DATABASES) are remembered."""
    place = "/".join(str(database.get(key, "")) for key in ("HOST", "PORT", "NAME"))
    name = f"jobqueue-alerts-{os.getuid()}-{hashlib.sha256(place.encode()).hexdigest()[:12]}.json"
    return Path(tempfile.gettempdir()) / name


def remembered(path: Path) -> Outage | None:
    """Return the outage that is remembered, None where there is none, or where the file is not one of ours."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(file, encoding="utf-8") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            return None
        try:
            values = json.load(opened)
            return Outage(datetime.fromisoformat(values["since"]), bool(values["told"]))
        except (ValueError, TypeError, KeyError):
            return None


def remember(path: Path, outage: Outage) -> None:
    """Remember an outage. Raises OSError where the file cannot be written."""
    forget(path)
    # Made anew, never followed: others may write to the temp directory, too.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        json.dump({"since": outage.since.isoformat(), "told": outage.told}, opened)


def forget(path: Path) -> None:
    """Forget the outage: the database answers."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def now() -> datetime:
    """Return the time of this machine: the database's cannot be asked for."""
    return datetime.now(UTC)
