"""The benchmarks: which command runs which, and the rows that each gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .figures import Figure
from .measures import backlog, drain, enqueue, horizon, latency, memory, snapshot, statistics
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
CHECKS = {"engine": ENGINE}
COMMANDS = tuple(dict.fromkeys(benchmark.command for benchmark in ENGINE))
ROWS = tuple(row for benchmark in ENGINE for row in benchmark.rows)


def chosen(benchmarks: Sequence[Benchmark], only: Sequence[str]) -> list[Benchmark]:
    """Return the benchmarks that give the rows wanted; no rows means all of them."""
    return [benchmark for benchmark in benchmarks if not only or set(benchmark.rows) & set(only)]
