"""Make every check, in order; one that cannot be made leaves the others standing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connections

from jobqueue.exceptions import ConfigurationError

from . import access, growth, horizon, indexes, server, vacuum, way, work
from .findings import Checked, Diagnosis, Told
from .looking import Look, Unread

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

Check = Callable[[Look], Told]

#: Needs no database.
SETTINGS: Final[Mapping[str, Check]] = {"settings": server.settings}

CHECKS: Final[Mapping[str, Check]] = {
    "engine": server.engine,
    "migrations": server.migrations,
    "privileges": access.privileges,
    "clocks": server.clocks,
    "pooler": way.pooler,
    "listen": way.listening,
    "connections": access.connections_left,
    "vacuum": vacuum.vacuum,
    "bloat": vacuum.bloat,
    "indexes": indexes.indexes,
    "horizon": horizon.horizon,
    "queues": work.queues,
    "types": work.types,
    "workers": work.workers,
    "jobs": work.jobs,
    "growth": growth.growth,
}


def examine(manager: JobManager) -> Diagnosis:
    """Return what was found. Raises nothing of the database's: what cannot be read is named."""
    look = Look(manager)
    checks = [_checked(name, check, look) for name, check in SETTINGS.items()]
    try:
        connections[look.alias].ensure_connection()
    except (OperationalError, InterfaceError) as error:
        return Diagnosis((*checks, Checked(name="database", unread=_first_line(error))), reachable=False)
    checks += [_checked(name, check, look) for name, check in CHECKS.items()]
    return Diagnosis(tuple(checks), reachable=True)


def _checked(name: str, check: Check, look: Look) -> Checked:
    try:
        detail, findings = check(look)
        return Checked(name=name, detail=detail, findings=tuple(findings))
    except Unread as error:
        return Checked(name=name, unread=str(error))
    except (DatabaseError, InterfaceError, psycopg.Error, ConfigurationError) as error:
        return Checked(name=name, unread=_first_line(error))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
