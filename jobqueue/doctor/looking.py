"""What all checks share: the alias, the settings, one snapshot of the figures, and statements with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobqueue.conf import JobQueueSettings, get_settings
from jobqueue.ops.limited import read_within
from jobqueue.ops.snapshot import Snapshot, take_snapshot

from .catalogue import CATALOGUE
from .findings import Finding

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

T = TypeVar("T")

#: A statement that takes longer is given up: nobody waits for a doctor that has become the illness.
LIMIT: Final = timedelta(seconds=2)
PATIENCE: Final = 4.0


class Unread(Exception):
    """Something could not be looked at; the text says why."""


class Look:
    """One examination of one alias."""

    def __init__(self, manager: JobManager) -> None:
        self.manager, self.alias = manager, manager.write_db
        # Found out on the way: behind a pooler the server's limit is not that of its clients, and what no migration has
        # made yet was not dropped.
        self.behind_pooler, self.all_migrated = False, True

    @property
    def settings(self) -> JobQueueSettings:
        """The settings in force; raises ConfigurationError where they are wrong."""
        return get_settings()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The figures of the moment, read when first asked for."""
        return take_snapshot(self.manager, fresh=True, patience=PATIENCE)

    def figures(self, *names: str) -> Snapshot:
        """Return the snapshot where it knows all of these. Raises Unread where it does not."""
        if missing := sorted({*names} & self.snapshot.unknown):
            why = self.snapshot.error or "not allowed, locked, or not told in time"
            raise Unread(f"could not be read: {', '.join(missing)} ({why})")
        return self.snapshot

    def ask(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. Raises Unread where it takes too long, and the errors of django.db."""
        return self.read(lambda: self.manager.run_sql(statement, params))

    def read(self, query: Callable[[], T], *, by_index: bool = True) -> T:
        """Return what a query returns, without sequential scans. Raises Unread where it takes too long."""
        found = read_within(self.alias, query, LIMIT, by_index=by_index)
        if found is None:
            raise Unread(f"took longer than {LIMIT.total_seconds():g} s, or waited for a lock")
        return found


def finding(code: str, text: str, subject: str = "") -> Finding:
    """Return a finding of a kind that the catalogue has."""
    return Finding(code, subject, text, CATALOGUE[code])
