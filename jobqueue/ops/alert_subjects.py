"""The values that are of one queue, job type, worker or budget each: an incident is of one of these."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from jobqueue.alerting import Rule, number
from jobqueue.internal import is_internal
from jobqueue.managers.pausing import ALL_QUEUES, BY_BUDGET

from .alert_values import Look, Measured, Values
from .alert_words import lasting, percent, plural
from .budgets import BudgetState
from .counts import COUNT_CAP
from .queue_figures import QueueFigures
from .queues import paused_queues
from .statistics import Figures, figures
from .worker_figures import WorkerFigures

DAY: Final = timedelta(days=1)
BEFORE_SECONDS: Final = 300.0

Rates = Mapping[tuple[str, ...], Figures]

# The day before changes slowly and is the dearest read: by alias and window, with the time it was read.
_before: dict[tuple[str, float], tuple[float, Rates]] = {}


def _oldest_pending(look: Look, rule: Rule) -> Values | None:
    if "queues.depth" in look.snapshot.unknown:
        return None
    return {
        queue.queue: Measured(
            queue.oldest_sec,
            f"the oldest due job of queue {queue.queue} waits for {lasting(queue.oldest_sec)}; {_load(queue)}",
        )
        for queue in look.snapshot.queues
        if queue.oldest_sec and queue.depth and queue.paused is None
    }


def _load(queue: QueueFigures) -> str:
    done = "unknown" if queue.done_per_sec is None else f"{number(queue.done_per_sec)} done a second"
    workers = "unknown" if queue.workers is None else plural(queue.workers, "worker", COUNT_CAP)
    return f"{plural(queue.depth or 0, 'job', COUNT_CAP)} due, {done}, {workers}"


def _without_worker(look: Look, rule: Rule) -> Values | None:
    snapshot = look.snapshot
    if {"queues.depth", "workers", "queues.paused"} & snapshot.unknown:
        return None
    return {
        queue.queue: Measured(
            queue.depth,
            f"no living worker serves queue {queue.queue}: {plural(queue.depth, 'job', COUNT_CAP)} due, the oldest for"
            f" {lasting(queue.oldest_sec or 0)}",
        )
        for queue in snapshot.queues
        if queue.depth and queue.workers == 0 and queue.paused is None
    }


def _paused(look: Look, rule: Rule) -> Values | None:
    # Not the snapshot's queues: one pause of all is one trouble, also where no queue has had a job of late.
    pauses = look.read(lambda: paused_queues(look.alias))
    if pauses is None:
        return None
    found = {}
    for pause in pauses:
        if pause.paused_by.startswith(BY_BUDGET):
            continue
        seconds = (look.snapshot.at - pause.paused_at).total_seconds()
        until = (
            "until somebody resumes it" if pause.resumes_at is None else f"until {pause.resumes_at:%Y-%m-%d %H:%M} UTC"
        )
        why = f" ({pause.reason})" if pause.reason else ""
        which = "all queues are" if pause.name == ALL_QUEUES else f"queue {pause.name} is"
        text = f"{which} paused for {lasting(seconds)} by {pause.paused_by}{why}, {until}"
        found[pause.name] = Measured(seconds, text)
    return found


def _silent(look: Look, rule: Rule) -> Values | None:
    workers = look.snapshot.workers
    if "workers" in look.snapshot.unknown:
        return None
    return {
        worker.worker_id: Measured(
            worker.heartbeat_age_sec,
            f"worker {worker.worker_id} on {worker.host} (pid {worker.pid}) has not been heard of for"
            f" {lasting(worker.heartbeat_age_sec)}; it held {plural(worker.busy, 'job', COUNT_CAP)}",
        )
        for worker in workers
        if not worker.alive and not any(_replaces(other, worker) for other in workers)
    }


def _replaces(other: WorkerFigures, silent: WorkerFigures) -> bool:
    """Tell whether a living worker was started in the place of a silent one, as by systemd after a crash."""
    same = (other.name, other.host) == (silent.name, silent.host)
    return same and other.alive and other.uptime_sec < silent.heartbeat_age_sec


def _failure_rate(look: Look, rule: Rule) -> Values | None:
    window = timedelta(seconds=rule.window_seconds)
    now = look.read(lambda: figures(window, by=("job_type",), times=False, using=look.alias))
    before = _day_before(look, window)
    if now is None or before is None:
        return None
    return {
        key[0]: _jump(key[0], recent, before.get(key, Figures()), rule)
        for key, recent in now.items()
        if recent.done + recent.failed >= rule.minimum_jobs and not is_internal(key[0])
    }


def _jump(job_type: str, recent: Figures, before: Figures, rule: Rule) -> Measured:
    rate, usual = recent.failure_rate or 0.0, before.failure_rate or 0.0
    text = (
        f"{percent(rate)} of {recent.done + recent.failed} attempts of {job_type} failed within the last"
        f" {lasting(rule.window_seconds)}, {percent(usual)} in the day before"
    )
    return Measured(max(0.0, rate - usual), text)


def forget() -> None:
    """Read the day before anew at the next look."""
    _before.clear()


def _day_before(look: Look, window: timedelta) -> Rates | None:
    key = (look.alias, window.total_seconds())
    read_at, known = _before.get(key, (float("-inf"), {}))
    # A window that a test or a demo has shortened moves faster than the day before is kept.
    if time.monotonic() - read_at < min(BEFORE_SECONDS, window.total_seconds() / 3):
        return known
    found = look.read(lambda: figures(DAY + window, until=window, by=("job_type",), times=False, using=look.alias))
    if found is not None:
        _before[key] = (time.monotonic(), found)
    return found


def _budget(look: Look, rule: Rule) -> Values | None:
    if look.budgets is None:
        return None
    return {state.name: _spent(state) for state in look.budgets}


def _spent(state: BudgetState) -> Measured:
    share = float(state.share) * 100
    text = (
        f"budget {state.name}: {number(float(state.spent))} of {number(float(state.amount))} {state.unit} are spent"
        f" ({share:.3g} %), until {state.window_end:%Y-%m-%d %H:%M %Z}; at its limit: {state.at_limit}"
    )
    return Measured(share, text)


SUBJECTS: Final[Mapping[str, Callable[[Look, Rule], Values | None]]] = {
    "oldest_pending_sec": _oldest_pending,
    "queue_without_worker": _without_worker,
    "queue_paused_sec": _paused,
    "worker_silent": _silent,
    "failure_rate": _failure_rate,
    "budget_80": _budget,
    "budget_100": _budget,
}
