"""How each queue stands: what waits, how fast it comes and goes, who serves it, and whether somebody paused it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from jobqueue import sql
from jobqueue.histograms import BUCKETS, NO_COUNTS
from jobqueue.managers.rows import Run

from .queues import PausedQueue
from .statistics import Figures, figures
from .worker_figures import WorkerFigures

#: The time that rates, percentiles and failures are of.
RECENTLY: Final = timedelta(minutes=15)

MOST_QUEUES: Final = 200
ENTRIES: Final = 100_000
NEWEST: Final = 2_000
CHUNKS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """How one queue stands. None: unknown; of percentiles and failures also: nothing ended in the last 15 minutes."""

    queue: str
    depth: int | None  # due jobs; a lower bound where depth_capped
    depth_capped: bool = False
    depth_estimate: int | None = None  # of a capped depth, where one can be made
    oldest_sec: float | None = None  # since the oldest due job was due; 0 when nothing is due
    arrival_per_sec: float | None = None  # jobs enqueued, over 15 minutes
    arrival_estimated: bool = False  # more than 2,000 jobs came within 15 minutes: a sample says to which queues
    done_per_sec: float | None = None
    wait_p50_sec: float | None = None
    wait_p95_sec: float | None = None
    run_p50_sec: float | None = None
    run_p95_sec: float | None = None
    failure_rate: float | None = None  # of the attempts that ended well or badly: 0 to 1
    paused: PausedQueue | None = None
    workers: int | None = None  # living ones that serve it and do not stop
    # At the present rates; None: it does not shrink, is paused, or nobody knows. A lower bound where drain_capped.
    drain_sec: float | None = None

    @property
    def drain_capped(self) -> bool:
        """Tell whether the time to drain is that of a depth which is a lower bound itself."""
        return self.depth_capped and self.depth_estimate is None


class Depth(NamedTuple):
    """How many jobs of a queue are due, and for how long the oldest has been."""

    jobs: int
    oldest_seconds: float
    capped: bool


class Arrivals(NamedTuple):
    """How many jobs a second were enqueued, by queue, and whether that is an estimate."""

    per_second: Mapping[str, float]
    estimated: bool


class Readings(NamedTuple):
    """What the figures of queues are made of; None: could not be read."""

    depths: Mapping[str, Depth] | None
    arrivals: Arrivals | None
    ended: Mapping[str, Figures] | None
    paused: Sequence[PausedQueue] | None
    workers: Sequence[WorkerFigures] | None
    pending_estimate: int | None = None


def read_depths(run: Run, *, cap: int) -> dict[str, Depth]:
    """Return the depth of each queue that has due jobs, exact up to the cap where not many queues are long.

    Ten queues of 10,000 and more are read to the cap; more of them share what is read, so that this has an end.
    """
    found = {}
    for queue, jobs, oldest, limit in run(sql.QUEUE_DEPTHS, {"queues": MOST_QUEUES, "entries": ENTRIES, "cap": cap}):
        found[queue] = Depth(min(jobs, limit), max(oldest, 0.0), jobs > limit)
    return found


def read_long(run: Run, depths: Mapping[str, Depth], queues: Sequence[str], *, cap: int) -> dict[str, Depth]:
    """Return some of the depths again, counted up to the cap."""
    rows = run(sql.LONG_QUEUES, {"queues": list(queues), "cap": cap})
    return {queue: Depth(min(jobs, cap), depths[queue].oldest_seconds, jobs > cap) for queue, jobs in rows}


def read_arrivals(run: Run) -> Arrivals:
    """Return how many jobs were enqueued of late: counted where the newest rows reach back so far, else estimated."""
    rows = run(sql.ARRIVALS, {"take": NEWEST, "span": RECENTLY})
    estimated = any(not complete for _, _, complete in rows)
    if estimated:
        rows = run(sql.ESTIMATED_ARRIVALS, {"span": RECENTLY, "chunks": CHUNKS, "take": max(1, NEWEST // CHUNKS)})
    return Arrivals({row[0]: row[1] / RECENTLY.total_seconds() for row in rows if row[1]}, estimated)


def read_ended(run: Run) -> dict[str, Figures]:
    """Return what the attempts of late came to, by queue, with the percentiles of their times."""
    outcomes: dict[str, dict[int, int]] = {}
    dead: Counter[str] = Counter()
    waits: dict[str, list[int]] = {}
    runs: dict[str, list[int]] = {}
    seconds = 0.0
    for queue, outcome, jobs, died, covered, bucket, waited, ran in run(sql.QUEUE_STATISTICS, {"window": RECENTLY}):
        if outcome is not None:
            outcomes.setdefault(queue, {})[outcome] = jobs
            dead[queue] += died
            seconds = covered
        elif 0 <= bucket < BUCKETS:  # which all are but those written by hand
            waits.setdefault(queue, [0] * BUCKETS)[bucket] += waited or 0
            runs.setdefault(queue, [0] * BUCKETS)[bucket] += ran or 0
    return {
        queue: Figures(
            outcomes=ends,
            dead=dead[queue],
            wait_counts=tuple(waits.get(queue, NO_COUNTS)),
            run_counts=tuple(runs.get(queue, NO_COUNTS)),
            seconds=seconds,
        )
        for queue, ends in outcomes.items()
    }


def read_ended_without_times(alias: str) -> dict[str, Figures]:
    """Return the same without the times, at a small part of the cost."""
    return {key[0]: one for key, one in figures(RECENTLY, by=("queue",), times=False, using=alias).items()}


def queue_figures(read: Readings, *, names: Iterable[str] = ()) -> tuple[QueueFigures, ...]:
    """Return the queues that have due jobs, had jobs of late, or are paused, and those named, by name."""
    return tuple(_one(name, read) for name in sorted({*_names(read), *names}))


def _names(read: Readings) -> set[str]:
    names: Iterable[str] = {
        *(read.depths or ()),
        *(read.arrivals.per_second if read.arrivals else ()),
        *(read.ended or ()),
        *(pause.name for pause in read.paused or ()),
    }
    return set(names) - {"*"}


def _one(name: str, read: Readings) -> QueueFigures:
    depth = _depth(name, read.depths)
    ended = read.ended.get(name, Figures()) if read.ended is not None else None
    times = ended or Figures()  # without any
    arrival = None if read.arrivals is None else read.arrivals.per_second.get(name, 0.0)
    paused = next((pause for pause in _own_first(name, read.paused or ()) if pause.holds(name)), None)
    done = None if ended is None else _rate(ended.done, ended)
    estimate = _estimate(name, depth, read)
    return QueueFigures(
        queue=name,
        depth=depth and depth.jobs,
        depth_capped=depth is not None and depth.capped,
        depth_estimate=estimate,
        oldest_sec=depth and depth.oldest_seconds,
        arrival_per_sec=arrival,
        arrival_estimated=read.arrivals is not None and read.arrivals.estimated,
        done_per_sec=done,
        wait_p50_sec=times.wait_p50,
        wait_p95_sec=times.wait_p95,
        run_p50_sec=times.run_p50,
        run_p95_sec=times.run_p95,
        failure_rate=times.failure_rate,
        paused=paused,
        workers=None if read.workers is None else sum(worker.serves(name) for worker in read.workers),
        drain_sec=None if paused or read.paused is None else _drain(depth, estimate, arrival, _leaving(ended)),
    )


def _depth(name: str, depths: Mapping[str, Depth] | None) -> Depth | None:
    """Return the depth of a queue, None where it may not have been looked at: not all queues were."""
    if depths is None:
        return None
    return depths.get(name, None if len(depths) >= MOST_QUEUES else Depth(0, 0.0, capped=False))


def _own_first(name: str, paused: Sequence[PausedQueue]) -> list[PausedQueue]:
    return sorted(paused, key=lambda pause: pause.name != name)


def _rate(jobs: int, ended: Figures) -> float:
    return jobs / ended.seconds if ended.seconds else 0.0


def _leaving(ended: Figures | None) -> float | None:
    """Return how many jobs leave the queue a second: those done, and those that are given up."""
    return None if ended is None else _rate(ended.done + ended.dead, ended)


def _estimate(name: str, depth: Depth | None, read: Readings) -> int | None:
    """Return the estimated depth of the one queue that is longer than can be counted.

    Of several such queues only the sum is known: that of the index.
    """
    if depth is None or not depth.capped or read.depths is None or read.pending_estimate is None:
        return None
    others = [other for queue, other in read.depths.items() if queue != name]
    if any(other.capped for other in others):
        return None
    estimate = read.pending_estimate - sum(other.jobs for other in others)
    return estimate if estimate > depth.jobs else None


def _drain(depth: Depth | None, estimate: int | None, arrival: float | None, leaving: float | None) -> float | None:
    if depth is not None and depth.jobs == 0:
        return 0.0
    if depth is None or arrival is None or leaving is None or leaving <= arrival:
        return None
    return (estimate or depth.jobs) / (leaving - arrival)
