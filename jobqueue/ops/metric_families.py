"""The families of metrics: what each figure is called, its labels, and that there are not too many of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import jobqueue
from jobqueue.conf import get_settings
from jobqueue.histograms import Counts, edges
from jobqueue.outcomes import Outcome

from .database import DatabaseFigures
from .day import Day
from .metric_names import OTHER, Named, Series, gauge_series
from .queue_figures import QueueFigures
from .snapshot import Snapshot
from .statistics import Figures
from .worker_figures import WorkerFigures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

STATUSES: Final = ("pending", "running", "scheduled", "waiting", "dead")
MOST_WORKERS: Final = 100
#: Of the 63 edges of the stored histograms one an octave, from 1 ms to 18.6 hours.
SHOWN_EDGES: Final = range(0, 54, 2)
#: Shown as 0 where there were none, so that the first failure is an increase and not a new series.
ALWAYS_SHOWN: Final = (Outcome.DONE, Outcome.FAILED)

# Kept by process: a name that is shown is shown for the rest of the day, or the sum of the others would shrink.
_kinds, _queues, _types = Named(), Named(), Named()

Value = float | int | None
Rows = Iterable[tuple[Sequence[str], Value]]


def snapshot_families(snapshot: Snapshot, *, costs: bool = True) -> Iterator[Metric]:
    """Yield what is known of the moment; a figure that is unknown has no sample."""
    yield _gauge("jobqueue_info", "Version of jobqueue that answers", ["version"], [([jobqueue.__version__], 1)])
    yield _single("jobqueue_up", "Whether the database of the jobs answers", int(not snapshot.error))
    yield _single("jobqueue_unknown_figures", "Figures that could not be read in time", len(snapshot.unknown))
    jobs = [([name], snapshot.estimates.get(name, getattr(snapshot, name))) for name in STATUSES]
    yield _gauge("jobqueue_jobs", "Jobs by status; beyond 10,000 estimated", ["status"], jobs)
    for name, text, value in (
        ("stuck_jobs", "Running jobs whose lease expired or that run for too long", snapshot.stuck_running),
        ("dead_last_hour", "Jobs that became dead letters within the last hour and still are", snapshot.dead_1h),
        ("deadlines_last_hour", "Attempts that ran into their deadline within the last hour", snapshot.deadline_1h),
    ):
        yield _single(f"jobqueue_{name}", text, value)
    if costs:
        cost = None if snapshot.cost_1h_usd is None else float(snapshot.cost_1h_usd)
        yield _gauge("jobqueue_cost_last_hour", "Costs of the last hour", ["unit"], [(["USD"], cost)])
    yield from _queue_families(snapshot.queues, pauses_known="queues.paused" not in snapshot.unknown)
    yield from _worker_families(snapshot.workers, known="workers" not in snapshot.unknown)
    yield from _database_families(snapshot.database)
    yield from _app_gauges(snapshot.workers)


def day_families(day: Day, taken: Collection[str] = (), *, costs: bool = True) -> Iterator[Metric]:
    """Yield what has been counted since midnight UTC; names of families that are taken are not used for counters."""
    if day.since is None:
        return
    text = "Since when the counters count: midnight UTC"
    yield _single("jobqueue_counted_since_timestamp_seconds", text, day.since.timestamp())
    if day.ended is not None:
        yield from _attempt_families(day.ended, day.since)
    # A refund would make the sum go down, which a counter does not.
    if costs and day.costs is not None and not get_settings().COST_REFUND_MAX:
        rows = [([unit], float(amount)) for unit, amount in sorted(day.costs.items())]
        yield _counter("jobqueue_cost", "What attempts cost", ["unit"], rows)
    if day.counters is not None:
        counted = Series("counter", taken)
        for one in day.counters:
            counted.add(one.name, one.labels, one.amount)
        yield from counted.families()
    if day.firing is not None:
        rows = [([rule], count) for rule, count in day.firing.items()]
        yield _gauge("jobqueue_alerts_firing", "Incidents that fire now, by rule", ["rule"], rows)
    if costs and day.budgets is not None:
        rows = [([name], share) for name, share in day.budgets.items()]
        yield _gauge("jobqueue_budget_spent_ratio", "Share of each budget that is spent", ["budget"], rows)


def _queue_families(queues: Sequence[QueueFigures], *, pauses_known: bool) -> Iterator[Metric]:
    """Yield the gauges of the deepest queues, and the depth and age of the others together."""
    ranked = sorted(queues, key=lambda queue: (-(queue.depth or 0), -(queue.done_per_sec or 0.0), queue.queue))
    shown, others = ranked[: Named.MOST], ranked[Named.MOST :]
    depths = {queue.queue: queue.depth_estimate or queue.depth for queue in shown}
    ages = {queue.queue: queue.oldest_sec for queue in shown}
    if known := [queue for queue in others if queue.depth is not None]:
        depths[OTHER] = sum((queue.depth or 0 for queue in known), start=depths.get(OTHER) or 0)
        ages[OTHER] = max([queue.oldest_sec or 0.0 for queue in known] + [ages.get(OTHER) or 0.0])
    label = ["queue"]
    text = "Due jobs; beyond the cap estimated, or a lower bound"
    yield _gauge("jobqueue_queue_depth", text, label, [([name], jobs) for name, jobs in depths.items()])
    text = "Since the oldest due job was due"
    yield _gauge("jobqueue_oldest_pending_seconds", text, label, [([name], age) for name, age in ages.items()])
    for name, text, field in (
        ("arrivals_per_second", "Jobs enqueued a second of late, estimated where many come", "arrival_per_sec"),
        ("done_per_second", "Jobs done a second over the last 15 minutes", "done_per_sec"),
        ("failure_ratio", "Attempts that ended badly of those of the last 15 minutes", "failure_rate"),
        ("workers", "Living workers that serve the queue", "workers"),
        (
            "drain_seconds",
            "Until the queue is empty at the present rates; absent where it does not shrink or only a part is counted",
            "drain_sec",
        ),
    ):
        # A lower bound of that time would look like an end that is near.
        told = [one for one in shown if field != "drain_sec" or not one.drain_capped]
        yield _gauge(f"jobqueue_queue_{name}", text, label, [([one.queue], getattr(one, field)) for one in told])
    paused = [([queue.queue], int(queue.paused is not None)) for queue in shown if pauses_known]
    yield _gauge("jobqueue_queue_paused", "Whether somebody paused the queue", label, paused)


def _worker_families(workers: Sequence[WorkerFigures], *, known: bool) -> Iterator[Metric]:
    if known:
        states = {"alive": 0, "stopping": 0, "silent": 0}
        for worker in workers:
            states["silent" if not worker.alive else "stopping" if worker.stopping else "alive"] += 1
        yield _gauge("jobqueue_workers", "Workers by state", ["state"], [([one], states[one]) for one in states])
    shown = sorted(workers, key=lambda worker: (not worker.alive, worker.worker_id))[:MOST_WORKERS]
    for name, text, field in (
        ("slots", "Jobs that the worker runs at a time", "slots"),
        ("busy", "Jobs that the worker holds", "busy"),
        ("memory_bytes", "Memory of the worker's processes", "memory_bytes"),
        ("uptime_seconds", "Since the worker's start", "uptime_sec"),
        ("heartbeat_age_seconds", "Since the worker was last heard of", "heartbeat_age_sec"),
        ("claim_age_seconds", "Since the worker's claim loop was last well", "claim_age_sec"),
        ("clock_skew_seconds", "How far the worker's clock is ahead of the database's", "clock_skew_sec"),
    ):
        rows = [([worker.worker_id], getattr(worker, field)) for worker in shown]
        yield _gauge(f"jobqueue_worker_{name}", text, ["worker"], rows)
    ended = [([worker.worker_id], worker.jobs_ended) for worker in shown]
    yield _counter("jobqueue_worker_attempts", "Attempts that ended since the worker's start", ["worker"], ended)


def _database_families(database: DatabaseFigures) -> Iterator[Metric]:
    prefix = "jobqueue_database"
    held = database.oldest_snapshot_sec
    yield _single(f"{prefix}_oldest_snapshot_seconds", "Age of the oldest snapshot that somebody holds", held)
    for name, text, field in (
        ("live_rows", "Rows, by the server's statistics", "live_rows"),
        ("dead_rows", "Dead rows that wait for vacuum, by the server's statistics", "dead_rows"),
        ("table_bytes", "Size of the table with TOAST", "table_bytes"),
        ("index_bytes", "Size of the table's indexes", "index_bytes"),
    ):
        rows: Rows = [([one.table], getattr(one, field)) for one in database.tables]
        yield _gauge(f"{prefix}_{name}", text, ["table"], rows)
    vacuumed = [([one.table], _timestamp(one.last_autovacuum)) for one in database.tables]
    text = "When the table was last vacuumed by autovacuum"
    yield _gauge(f"{prefix}_last_autovacuum_timestamp_seconds", text, ["table"], vacuumed)
    roles = [([role], count) for role, count in database.connections.items()]
    yield _gauge(f"{prefix}_connections", "Connections of workers, by role", ["role"], roles)
    used, most = database.connections_used, database.connections_max
    yield _single(f"{prefix}_connections_used", "Connections of all clients of the server", used)
    yield _single(f"{prefix}_connections_limit", "Connections that the server allows", most)
    usage = database.notify_queue_usage
    yield _single(f"{prefix}_notify_queue_ratio", "Share of the server's queue of notifications in use", usage)


def _attempt_families(ended: Mapping[tuple[str, ...], Figures], since: datetime) -> Iterator[Metric]:
    day = since.toordinal()
    kinds = _kinds.merged(ended, day)
    names = ["queue", "job_type"]
    attempts: list[tuple[Sequence[str], Value]] = []
    for key, figures in kinds.items():
        outcomes: dict[int, int] = {outcome: figures.outcomes.get(outcome, 0) for outcome in ALWAYS_SHOWN}
        outcomes |= figures.outcomes
        attempts += [([*key, _word(outcome)], count) for outcome, count in sorted(outcomes.items())]
    yield _counter("jobqueue_attempts", "Attempts that ended, by outcome", [*names, "outcome"], attempts)
    dead = [(key, figures.dead) for key, figures in kinds.items()]
    yield _counter("jobqueue_dead_letters", "Jobs that became dead letters", names, dead)
    cpu = [(key, figures.cpu_seconds) for key, figures in kinds.items()]
    yield _counter("jobqueue_cpu_seconds", "Processor time of attempts", names, cpu)
    waits = _queues.merged(_by(ended, 0), day)
    rows = [(key, one.wait_counts, one.wait_seconds) for key, one in waits.items()]
    yield _histogram("jobqueue_wait_seconds", "Time between due and claimed", ["queue"], rows)
    runs = _types.merged(_by(ended, 1), day)
    rows = [(key, one.run_counts, one.run_seconds) for key, one in runs.items()]
    yield _histogram("jobqueue_run_seconds", "Time that attempts ran", ["job_type"], rows)


def _by(ended: Mapping[tuple[str, ...], Figures], place: int) -> dict[tuple[str, ...], Figures]:
    found: dict[tuple[str, ...], Figures] = {}
    for key, figures in ended.items():
        name = (key[place],)
        found[name] = found[name] + figures if name in found else figures
    return found


def _app_gauges(workers: Sequence[WorkerFigures]) -> Iterator[Metric]:
    return gauge_series((worker.worker_id, worker.gauges) for worker in workers if worker.alive).families()


def _word(outcome: int) -> str:
    return Outcome(outcome).name.lower() if outcome in Outcome.values else f"outcome_{outcome}"


def _timestamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

    return _filled(GaugeMetricFamily(name, text, labels=labels), rows)


def _single(name: str, text: str, value: Value) -> Metric:
    return _gauge(name, text, [], [([], value)])


def _counter(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

    return _filled(CounterMetricFamily(name, text, labels=labels), rows)


def _filled(family: Any, rows: Rows) -> Metric:
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family  # type: ignore[no-any-return]


def _histogram(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], Counts, float]]
) -> Metric:
    from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

    family = HistogramMetricFamily(name, text, labels=labels)
    for values, counts, seconds in rows:
        sums = list(accumulate(counts))
        buckets = [(_edge(edge), sums[edge]) for edge in SHOWN_EDGES]
        family.add_metric(values, [*buckets, ("+Inf", sums[-1])], seconds)
    return family


def _edge(number: int) -> str:
    """Return an edge as a label's value: in seconds, to a millisecond."""
    return f"{edges()[number]:.3f}"
