"""Whether the queue works: for load balancers, containers and monitors, which want a yes or a no, and a reason.

Ready is: the database answers, its tables are those of this version, and a claim loop is well. A worker's heartbeat
says only that its process lives; that it still claims is another matter (its claims may hang while it beats), so the
two ages are told apart. Dead letters and backlogs make nothing unhealthy: restarting a process cures neither, and
alerts tell of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

from django.conf import settings as django_settings
from django.db import DatabaseError, InterfaceError

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.managers.rows import Run
from jobqueue.managers.sessions import Session

from .worker_figures import silent_after

#: A statement that takes longer counts as no answer.
PATIENCE: Final = timedelta(seconds=2)
MOST_WORKERS: Final = 1_000


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Health:
    """What was looked at, and whether all of it is well."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check is well."""
        return all(check.ok for check in self.checks)

    def to_json(self, *, details: bool = True) -> dict[str, Any]:
        """Return the verdict as JSON holds it; without details only which checks there were and how they ended."""
        checks = [check._asdict() if details else {"name": check.name, "ok": check.ok} for check in self.checks]
        return {"status": "ok" if self.ok else "unavailable", "checks": checks}


class WorkerAges(NamedTuple):
    """How long ago a worker was heard of, and its claim loop last seen to be well."""

    worker_id: str
    heartbeat_seconds: float
    claim_seconds: float
    stopping: bool

    @property
    def heartbeat(self) -> Check:
        """Whether it is heard of."""
        text = f"worker {self.worker_id}: last heard of {self.heartbeat_seconds:.1f} s ago"
        return Check("heartbeat", self.heartbeat_seconds < silent_after(), text)

    @property
    def claims(self) -> Check:
        """Whether its claim loop is well; one that stops claims nothing more, and that is as it should be."""
        text = f"worker {self.worker_id}: claim loop last well {self.claim_seconds:.1f} s ago"
        return Check("claims", self.stopping or self.claim_seconds <= get_settings().READY_CLAIM_SECONDS, text)

    @property
    def serving(self) -> Check:
        """Whether it takes jobs, not being about to stop."""
        return Check("serving", not self.stopping, f"worker {self.worker_id} {'stops' if self.stopping else 'serves'}")


def live() -> Health:
    """Return that this process answers; whoever asks learns it from the answer alone."""
    return Health((Check("process", True, "it answers"),))


def ready(using: str, *, workers: bool = True) -> Health:
    """Return whether the queue of a database works; `workers` False leaves the claim loops out.

    Looks by a connection of its own, closed afterwards: what others hold says nothing about getting one.
    """

    def look(run: Run) -> list[Check]:
        checks = [_migrations(run)]
        if workers and checks[0].ok:
            checks.append(_claim_loops(_ages(run)))
        return checks

    return Health(tuple(_look(using, look)))


def worker_health(
    using: str, *, worker_id: str | None = None, name: str | None = None, live_only: bool = False
) -> Health:
    """Return how one worker is, by its row: that of an id, or the youngest boot of a name.

    `live_only`: whether it is heard of, whatever its claims do.
    """

    def look(run: Run) -> list[Check]:
        found = _ages(run, worker_id=worker_id, name=name, take=1)
        if not found:
            return [Check("worker", False, f"no worker {worker_id or name} is registered")]
        worker = found[0]
        if live_only:
            return [worker.heartbeat]
        return [worker.heartbeat, worker.claims, worker.serving]

    return Health(tuple(_look(using, look)))


def missing_migrations(run: Run) -> list[str]:
    """Return the names of this version's migrations that the database does not have, sorted."""
    return sorted(_known_migrations() - _applied_migrations(run))


def newer_migrations(run: Run) -> list[str]:
    """Return the names of the migrations that the database has and this version does not know, sorted."""
    known = _known_migrations()
    return sorted(_applied_migrations(run) - known) if known else []


def _applied_migrations(run: Run) -> set[str]:
    # Asked first: a statement that fails would end the transaction around it, and the caller's next one with it.
    if not run("SELECT to_regclass('django_migrations') IS NOT NULL", {})[0][0]:
        return set()  # no migration of any app was ever applied
    # By hand: Django's loader imports every app's migrations, and a worker would keep them.
    return {name for (name,) in run("SELECT name FROM django_migrations WHERE app = 'jobqueue'", {})}


def _known_migrations() -> set[str]:
    module = django_settings.MIGRATION_MODULES.get("jobqueue", "jobqueue.migrations")
    # As Django's loader does: what begins with an underscore is no migration.
    found = iter_modules(import_module(module).__path__) if module else ()
    return {each.name for each in found if not each.ispkg and each.name[0] not in "_~"}


def _look(using: str, look: Callable[[Run], list[Check]]) -> list[Check]:
    """Return the check of the database, and those that it could be asked for."""
    session = Session(using, "jobqueue health", timeout=PATIENCE)
    try:
        return [Check("database", True, "it answers"), *look(session.run)]
    except (DatabaseError, InterfaceError) as error:
        return [Check("database", False, _first_line(error))]
    finally:
        session.close()


def _migrations(run: Run) -> Check:
    missing = missing_migrations(run)
    text = f"not applied: {', '.join(missing)}" if missing else "all applied"
    return Check("migrations", not missing, text)


def _ages(
    run: Run, *, worker_id: str | None = None, name: str | None = None, take: int = MOST_WORKERS
) -> list[WorkerAges]:
    rows = run(sql.WORKER_AGES, {"worker_id": worker_id, "name": name, "take": take})
    return [WorkerAges._make(row) for row in rows]


def _claim_loops(workers: Sequence[WorkerAges]) -> Check:
    """Tell whether one claim loop at least is well, where workers are expected: by their rows, or by the setting.

    Also a worker that died without a word is expected: its row says so until another worker removes it.
    """
    expected = [worker for worker in workers if not worker.stopping]
    if not expected:
        needed = get_settings().READY_NEEDS_WORKER
        return Check("claims", not needed, "no worker is registered" + (", one is needed" if needed else ""))
    well = [worker for worker in expected if worker.claims.ok and worker.heartbeat.ok]
    best = min(expected, key=lambda worker: worker.claim_seconds)
    text = f"{len(well)} of {len(expected)} workers; {best.claims.detail}"
    return Check("claims", bool(well), text)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
