"""Measure the runs that the price list charges (JOBQUEUE["RATES"]), and charge those that reported no cost.

What a run used is told by its child at its end. Of one that is killed nothing is told, so its process and those below
it are sampled while it runs: CPU time since its start, and the most memory. With several slots in a child its figures
are divided among them, since whose they are cannot be told.
"""

from __future__ import annotations

import time

from jobqueue import rates
from jobqueue.children.costs import is_chargeable, priced
from jobqueue.children.processes import cpu_seconds_of, descendants_of, resident_bytes
from jobqueue.managers import CostLine, Done, Ending

from .holding import Held
from .pool import Child

LOOK_SECONDS = 0.05
SHORT_SECONDS = 1.0  # a run that is younger is not written down while it runs: it will have ended by then


def begin(held: Held, child: Child | None) -> None:
    """Note the rate of a job whose handler begins."""
    held.rate = rates.rate_of(_name(held))
    held.cpu_before = held.cpu_used = None
    if held.rate is not None and child is not None:
        held.slots = child.slots


def sample(child: Child, running: list[Held]) -> None:
    """Measure what a child uses, for those of its running jobs that have a rate."""
    measured = [held for held in running if held.rate is not None and held.started is not None and not held.ended]
    if child.pid is None or not measured:
        return
    pids = [child.pid, *descendants_of(child.pid)]
    size, cpu = sum(map(resident_bytes, pids)), cpu_seconds_of(pids)
    for held in measured:
        if not (held.policy and held.policy.limits.memory_bytes):  # else its limit has it measured more exactly
            held.peak_memory = max(held.peak_memory or 0, size)
        if held.cpu_before is None:
            # Not read when it begins: no-ops would take a third longer. At the first look, a moment later, all time
            # since then is taken for CPU time, as far as the process had used so much at all.
            held.cpu_before = cpu - min(held.run_seconds(), cpu)
        # A process that ended may take its time with it, where nobody waited for it: never less than was seen before.
        held.cpu_used = max(held.cpu_used or 0.0, (cpu - held.cpu_before) / held.slots)


def charged(held: Held, end: Done | Ending, child: Child | None) -> Done | Ending:
    """Return the end with what the price list charges, where its attempt has a rate and reported no cost."""
    if held.rate is None or held.started is None or not is_chargeable(end):
        return end
    if held.peak_memory is None and child is not None and held.rate["gb_second"]:
        held.peak_memory = _size(child)  # too short to have been sampled: what its process has now
    peak = held.peak_memory if end.peak_memory is None else end.peak_memory
    cpu = held.cpu_used if end.cpu_seconds is None else end.cpu_seconds
    costs = _priced(held, end.run_seconds, cpu, peak)
    if isinstance(end, Done):
        return end._replace(costs=costs, peak_memory=peak)
    end.costs, end.peak_memory, end.cpu_seconds = costs, peak, cpu
    return end


def open_costs(held: Held) -> tuple[CostLine, ...]:
    """Return what a run has cost so far, by its own reports or else by the price list."""
    if held.costs or held.rate is None or held.started is None:
        return held.costs
    seconds = held.run_seconds()
    return _priced(held, seconds, held.cpu_used, held.peak_memory) if seconds > SHORT_SECONDS else ()


def _priced(held: Held, run_seconds: float, cpu_seconds: float | None, peak: int | None) -> tuple[CostLine, ...]:
    memory = None if peak is None else peak / held.slots
    return priced(_name(held), run_seconds=run_seconds, cpu_seconds=cpu_seconds, memory_bytes=memory)


def _size(child: Child) -> int | None:
    """Return the memory of a child, looked at 20 times a second at most: short jobs end by the thousand."""
    now = time.monotonic()
    if child.pid is not None and now - child.size[0] > LOOK_SECONDS:
        child.size = (now, resident_bytes(child.pid))
    return child.size[1] or None


def _name(held: Held) -> str:
    return held.policy.name if held.policy else held.job.job_type
