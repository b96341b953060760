"""A snapshot in words: the figures of all queues, then tables of queues, workers and the database's tables."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.utils import timezone

from jobqueue.ops.database import DatabaseFigures, TableFigures
from jobqueue.ops.queue_figures import QueueFigures
from jobqueue.ops.snapshot import FIGURES, Snapshot
from jobqueue.ops.worker_figures import WorkerFigures

from .tables import NONE, duration, rate, share, size, table

LABELS: Final = {
    "pending": "pending",
    "running": "running",
    "scheduled": "scheduled",
    "waiting": "waiting for other jobs",
    "done": "done in the last 24 hours",
    "dead": "dead letters",
    "dead_1h": "dead letters of the last hour",
    "deadline_1h": "deadlines missed in the last hour",
    "cost_1h_usd": "cost of the last hour (USD)",
    "stuck_running": "stuck running",
    "oldest_pending_sec": "oldest pending (s)",
}
QUEUE_HEAD: Final = (
    *("queue", "depth", "oldest", "in/s", "done/s", "wait p50", "p95", "run p50", "p95"),
    *("failed", "workers", "drains in", "paused"),
)
WORKER_HEAD: Final = (
    *("worker", "host", "state", "pid", "up", "heard of", "last claim", "busy", "memory", "ended", "jobs/s"),
    *("clock", "version"),
)
TABLE_HEAD: Final = ("table", "last autovacuum", "rows", "dead", "size", "indexes")


def tell(taken: Snapshot) -> str:
    """Return the whole snapshot as text."""
    parts = [
        figures(taken),
        queues(taken),
        workers(taken),
        database(taken.database, taken.unknown),
        tables(taken.database.tables, taken.unknown),
    ]
    return "\n\n".join(part for part in parts if part)


def figures(taken: Snapshot) -> str:
    """Return the figures of all queues as lines, the numbers in one column."""
    shown = {LABELS[name]: figure(taken, name) for name in FIGURES}
    label, number = max(map(len, shown)), max(map(len, shown.values()))
    return "\n".join(f"{name:<{label}}  {value:>{number}}" for name, value in shown.items())


def figure(taken: Snapshot, name: str) -> str:
    """Return one figure in words: ">=10000 (~25000)" at its cap, "unknown" where it took too long."""
    value = getattr(taken, name)
    if name in taken.unknown:
        return "unknown"
    if name == "oldest_pending_sec":
        return f"{value:.1f}"
    if name == "cost_1h_usd":
        return f"{value:f}"
    return _count(value, name in taken.capped, taken.estimates.get(name))


def queues(taken: Snapshot) -> str:
    """Return a table of queues."""
    unknown = _unknown(taken.unknown, "queues")
    if not taken.queues:
        return unknown
    return "\n".join(filter(None, (table(QUEUE_HEAD, [_queue(one) for one in taken.queues]), unknown)))


def workers(taken: Snapshot) -> str:
    """Return a table of workers and their gauges, or that there is none."""
    if "workers" in taken.unknown:
        return "workers: unknown"
    if not taken.workers:
        return "no worker"
    gauges = [line for worker in taken.workers for line in _gauges(worker)]
    return "\n".join([table(WORKER_HEAD, [_worker(one) for one in taken.workers], left=3), *gauges])


def database(figures: DatabaseFigures, unknown: frozenset[str]) -> str:
    """Return a few lines about the database."""
    lines = [] if "database.oldest_snapshot" in unknown else [_oldest_snapshot(figures)]
    if "database.load" not in unknown:
        roles = ", ".join(f"{role} {number}" for role, number in figures.connections.items())
        lines.append(f"connections: {figures.connections_used} of {figures.connections_max}; ours: {roles or 'none'}")
        lines.append(
            f"NOTIFY: {'in use' if figures.notify else 'not in use'}; "
            f"the server's queue is {share(figures.notify_queue_usage)} full"
        )
    return "\n".join(filter(None, (*lines, _unknown(unknown, "database"))))


def tables(found: tuple[TableFigures, ...], unknown: frozenset[str]) -> str:
    """Return a table of the app's tables that have rows, the largest first."""
    rows = sorted(found, key=lambda one: -(one.table_bytes or 0) - (one.index_bytes or 0) - one.live_rows)
    used = [_table(one) for one in rows if one.live_rows or one.dead_rows or one.last_autovacuum]
    return table(TABLE_HEAD, used, left=2) if used else ""


def _queue(one: QueueFigures) -> tuple[str, ...]:
    return (
        one.queue,
        "?" if one.depth is None else _count(one.depth, one.depth_capped, one.depth_estimate),
        duration(one.oldest_sec),
        ("~" if one.arrival_estimated else "") + rate(one.arrival_per_sec),
        rate(one.done_per_sec),
        duration(one.wait_p50_sec),
        duration(one.wait_p95_sec),
        duration(one.run_p50_sec),
        duration(one.run_p95_sec),
        share(one.failure_rate),
        "?" if one.workers is None else str(one.workers),
        _drain(one),
        _pause(one),
    )


def _drain(one: QueueFigures) -> str:
    sign = ">=" if one.drain_capped else "~" if one.depth_capped else ""
    return sign + duration(one.drain_sec) if one.drain_sec is not None else NONE


def _pause(one: QueueFigures) -> str:
    if one.paused is None:
        return NONE
    until = f" until {_moment(one.paused.resumes_at)}" if one.paused.resumes_at else ""
    return f"by {one.paused.paused_by}{until}"


def _worker(one: WorkerFigures) -> tuple[str, ...]:
    state = "stopping" if one.stopping else "alive"
    return (
        one.name,
        one.host,
        state if one.alive else "silent",
        str(one.pid),
        duration(one.uptime_sec),
        duration(one.heartbeat_age_sec),
        duration(one.claim_age_sec),
        f"{one.busy}/{one.slots}",
        size(one.memory_bytes),
        str(one.jobs_ended),
        rate(one.jobs_per_sec),
        NONE if one.clock_skew_sec is None else f"{one.clock_skew_sec:+.2f}s",
        one.version or NONE,
    )


def _gauges(worker: WorkerFigures) -> list[str]:
    found = []
    for gauge in worker.gauges:
        labels = ",".join(f"{name}={value}" for name, value in (gauge.get("labels") or {}).items())
        found.append(f"  {worker.name}  {gauge.get('name')}{f'{{{labels}}}' if labels else ''} = {gauge.get('value')}")
    return found


def _oldest_snapshot(figures: DatabaseFigures) -> str:
    holder = figures.oldest_snapshot_by
    blind = (
        "" if figures.sees_all_sessions is not False else " (of our own sessions: grant pg_read_all_stats to see all)"
    )
    if holder is None:
        return f"oldest snapshot: none{blind}"
    who = " ".join(filter(None, (holder.kind, holder.name, f"pid {holder.pid}" if holder.pid else "", holder.state)))
    age = duration(figures.oldest_snapshot_sec)
    return f"oldest snapshot: {age}, {figures.oldest_snapshot_xids} transactions, held by {who}{blind}"


def _table(one: TableFigures) -> tuple[str, ...]:
    vacuumed = _moment(one.last_autovacuum) if one.last_autovacuum else "never"
    return (one.table, vacuumed, str(one.live_rows), str(one.dead_rows), size(one.table_bytes), size(one.index_bytes))


def _count(value: int, capped: bool, estimate: int | None) -> str:
    about = f" (~{estimate})" if estimate is not None else ""
    return f">={value}{about}" if capped else str(value)


def _unknown(unknown: frozenset[str], part: str) -> str:
    names = sorted(name.partition(".")[2].replace("_", " ") for name in unknown if name.startswith(f"{part}."))
    return f"{part}: unknown {', '.join(names)}" if names else ""


def _moment(instant: datetime) -> str:
    return timezone.localtime(instant).isoformat(sep=" ", timespec="seconds")
