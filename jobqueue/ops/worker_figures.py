"""How each worker stands, by the rows that they write about themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Expression, ExpressionWrapper, F
from django.db.models.fields import DurationField

from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.models import Worker
from jobqueue.models.expressions import StatementTimestamp

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: So many workers are told of, the youngest heartbeats first.
MOST_WORKERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """How one worker stands, by its last heartbeat. Ages are by the database's clock."""

    worker_id: str
    name: str
    host: str
    pid: int
    version: str
    release: str  # of the project; "": it does not say
    queues: tuple[str, ...]  # "*" stands for every queue
    job_types: tuple[str, ...]  # empty: every type
    started_at: datetime
    uptime_sec: float
    heartbeat_age_sec: float
    claim_age_sec: float | None  # since its last good claim loop; None: none yet
    slots: int
    busy: int
    memory_bytes: int | None  # of its processes together
    jobs_ended: int  # attempts since its start
    jobs_per_sec: float | None  # over the minute before its last heartbeat
    gauges: tuple[Mapping[str, Any], ...]
    clock_skew_sec: float | None  # how far its clock is ahead of the database's
    listening: bool | None
    stopping: bool
    alive: bool  # its heartbeat is younger than silent_after()

    def serves(self, queue: str) -> bool:
        """Tell whether it lives, does not stop, and claims from a queue; all do from the package's own."""
        return self.alive and not self.stopping and bool({queue, "*"} & {*self.queues} or queue == INTERNAL_QUEUE)


def silent_after() -> float:
    """Return how many seconds after its last heartbeat a worker counts as dead: half a lease, at least 30 s."""
    return max(30.0, get_settings().LEASE_SECONDS / 2)


def read_workers(alias: str) -> tuple[WorkerFigures, ...]:
    """Return the workers that have a row, by name and start."""
    return figures_of(Worker.objects.using(alias))


def figures_of(workers: QuerySet[Worker], most: int = MOST_WORKERS) -> tuple[WorkerFigures, ...]:
    """Return those of the rows whose heartbeats are the youngest, by name and start."""
    rows = workers.annotate(uptime=_age("started_at"), silence=_age("heartbeat_at"), claim_age=_age("claimed_at"))
    found = (_figures(row, silent_after()) for row in rows.order_by("-heartbeat_at")[:most])
    return tuple(sorted(found, key=lambda worker: (worker.name, worker.started_at, worker.worker_id)))


def _age(column: str) -> Expression:
    return ExpressionWrapper(StatementTimestamp() - F(column), output_field=DurationField())


def _figures(row: Any, silent_seconds: float) -> WorkerFigures:
    silence = row.silence.total_seconds()
    return WorkerFigures(
        worker_id=row.worker_id,
        name=row.name,
        host=row.hostname,
        pid=row.pid,
        version=row.version,
        release=row.release,
        queues=tuple(row.queues),
        job_types=tuple(row.job_types),
        started_at=row.started_at,
        uptime_sec=row.uptime.total_seconds(),
        heartbeat_age_sec=silence,
        claim_age_sec=None if row.claim_age is None else row.claim_age.total_seconds(),
        slots=row.slots,
        busy=row.busy,
        memory_bytes=row.memory_bytes,
        jobs_ended=row.jobs_ended,
        jobs_per_sec=row.jobs_per_second,
        gauges=tuple(_mappings(row.gauges)),
        clock_skew_sec=row.clock_skew_seconds,
        listening=row.listening,
        stopping=row.stopping,
        alive=silence < silent_seconds,
    )


def _mappings(gauges: Any) -> Sequence[Mapping[str, Any]]:
    """Return what a worker reported, but nothing that another version of it may have written in another form."""
    return [one for one in gauges if isinstance(one, Mapping)] if isinstance(gauges, list) else []
