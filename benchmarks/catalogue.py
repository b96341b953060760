"""The benchmarks: which command runs which, and the rows that each gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .figures import Figure
from .measures import (
    backlog,
    drain,
    enqueue,
    horizon,
    isolation,
    latency,
    memory,
    quiet,
    rivals,
    slots,
    snapshot,
    statistics,
)
from .plan import Plan


@dataclass(frozen=True)
class Benchmark:
    """One measurement, and the rows of the table that come from it."""

    command: str
    rows: tuple[str, ...]
    measure: Callable[[Plan], list[Figure]]


ENGINE = (
    Benchmark("drain", ("drain",), drain.measure),
    Benchmark("enqueue", ("enqueue-one",), enqueue.measure_one),
    Benchmark("enqueue", ("enqueue-many",), enqueue.measure_many),
    Benchmark("enqueue", ("enqueue-busy",), enqueue.measure_busy),
    Benchmark("latency", ("latency-p50", "latency-p99"), latency.measure),
    Benchmark("backlog", ("backlog-finished",), backlog.measure_finished),
    Benchmark("backlog", ("backlog-due",), backlog.measure_due),
    Benchmark("horizon", ("horizon",), horizon.measure),
    Benchmark("statistics", ("statistics",), statistics.measure),
    Benchmark("memory", ("memory-supervisor", "memory-child"), memory.measure),
    Benchmark("snapshot", ("snapshot",), snapshot.measure),
)
#: What must hold beside peers (measures/rivals.py, quiet.py), and what no peer is needed for.
SPEED = (
    Benchmark("speed", ("drain-1", "drain-django"), rivals.measure_drain_one),
    Benchmark("speed", ("drain-2",), rivals.measure_drain_two),
    Benchmark("speed", ("enqueue-one",), rivals.measure_enqueue),
    Benchmark("speed", ("bulk",), rivals.measure_bulk),
    Benchmark("speed", ("enqueue-asleep",), enqueue.measure_asleep),
    Benchmark("speed", ("enqueue-busy",), enqueue.measure_taken),
    Benchmark("speed", ("latency-p50", "latency-p99"), rivals.measure_latency),
    Benchmark("speed", ("slots",), slots.measure_sleep),
    Benchmark("speed", ("cpu",), slots.measure_cpu),
    Benchmark("speed", ("deferred",), backlog.measure_deferred),
    Benchmark("speed", ("retained", "backlog"), backlog.measure_millions),
    Benchmark("speed", ("horizon", "horizon-p95"), horizon.measure_many),
    Benchmark("speed", ("isolation",), isolation.measure),
    Benchmark("speed", ("connections", "idle-cpu"), quiet.measure_idle),
    Benchmark("speed", ("notifies",), quiet.measure_notifies),
)
CHECKS = {"engine": ENGINE, "speed": SPEED}
COMMANDS = tuple(dict.fromkeys(benchmark.command for benchmark in ENGINE))
ROWS = tuple(dict.fromkeys(row for benchmarks in CHECKS.values() for benchmark in benchmarks for row in benchmark.rows))


def chosen(benchmarks: Sequence[Benchmark], only: Sequence[str]) -> list[Benchmark]:
    """Return the benchmarks that give the rows wanted; no rows means all of them."""
    return [benchmark for benchmark in benchmarks if not only or set(benchmark.rows) & set(only)]
