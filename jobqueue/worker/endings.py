"""How an attempt is written down that did not tell its own end: killed, crashed, cut off, or stopped."""

from __future__ import annotations

import signal
from datetime import timedelta

from jobqueue.backoff import Backoff
from jobqueue.children.protocol import CANCEL, DEADLINE, INTERRUPT
from jobqueue.conf import get_settings
from jobqueue.errors import cut_text, fingerprint
from jobqueue.managers import Ending, Release
from jobqueue.outcomes import Outcome

from .holding import Held

MEMORY = "memory"  # a reason to kill without asking
KILL = "kill"  # a person's word, which is one, too
LONGEST_FINGERPRINT_BYTES = 255

_CLASSES = {
    DEADLINE: "jobqueue.exceptions.JobDeadlineExceeded",
    MEMORY: "jobqueue.exceptions.JobMemoryExceeded",
    CANCEL: "jobqueue.exceptions.JobCancelled",
    INTERRUPT: "jobqueue.exceptions.JobInterrupted",
    KILL: "jobqueue.exceptions.JobKilled",
}


def apply_reason(ending: Ending, held: Held, reason: str) -> None:
    """Write the reason for which a run was stopped over whatever its handler made of that."""
    on_deadline = held.policy.on_deadline if held.policy else "retry"
    outcome, step = {
        DEADLINE: (Outcome.DEADLINE, on_deadline),
        MEMORY: (Outcome.MEMORY, "dead"),
        CANCEL: (Outcome.CANCELLED, "cancel"),
        INTERRUPT: (Outcome.INTERRUPTED, "interrupt"),
        KILL: (Outcome.CRASHED, "retry"),
    }[reason]
    ending.outcome, ending.step = outcome, step
    ending.limit_hit = reason in (DEADLINE, MEMORY)
    ending.error_class, ending.error_text = _CLASSES[reason], _text(held, reason)
    ending.fingerprint = fingerprint(_CLASSES[reason], reason, held.job.job_type)


def _text(held: Held, reason: str) -> str:
    limits = held.policy.limits if held.policy else None
    if reason == DEADLINE:
        duration = (limits.duration if limits else None) or get_settings().DEADLINE_SECONDS
        return f"deadline of {duration:g} s exceeded after {held.run_seconds():.1f} s"
    if reason == MEMORY:
        used = (held.peak_memory or 0) / 2**20
        allowed = ((limits.memory_bytes if limits else None) or 0) / 2**20
        return f"memory limit of {allowed:.0f} MB exceeded: {used:.0f} MB in use, the process was killed"
    if reason == KILL:
        return f"killed by {held.killed_by} after {held.run_seconds():.1f} s"
    return "cancelled while it ran" if reason == CANCEL else "cut off by no fault of its own; its effects may repeat"


def unknown_type(held: Held, text: str) -> Release | Ending:
    """Return what becomes of a job whose type nobody declares here: back for others, in the end a dead letter."""
    settings = get_settings()
    if (held.job.unknown_seconds or 0) < settings.UNKNOWN_TYPE_DEAD_SECONDS:
        return Release(*held.fence, timedelta(seconds=settings.UNKNOWN_TYPE_RETRY_SECONDS), True)
    ending = new_ending(held, Outcome.UNKNOWN_TYPE, "dead")
    ending.error_class = "jobqueue.exceptions.UnknownJobType"
    # Cut: a type that somebody wrote by hand may be of any length, and an index holds the fingerprint.
    ending.error_text = cut_text(f"unknown handler: {text}", settings.ERROR_MAX_BYTES)
    ending.fingerprint = cut_text(f"unknown-type:{held.job.job_type}", LONGEST_FINGERPRINT_BYTES)
    return ending


def new_ending(held: Held, outcome: Outcome, step: str) -> Ending:
    """Return an ending with the figures that the supervisor knows."""
    return Ending(
        held.job.id,
        held.job.lease_epoch,
        outcome,
        step,
        backoff(held),
        run_seconds=held.run_seconds(),
        peak_memory=held.peak_memory,
        costs=held.costs,
    )


def stopped(held: Held, reason: str, exit_code: int | None = None) -> Ending:
    """Return the ending of a run that was stopped for a reason."""
    ending = new_ending(held, Outcome.INTERRUPTED, "interrupt")
    ending.exit_code = exit_code
    apply_reason(ending, held, reason)
    return ending


def crashed(held: Held, exit_code: int, *, with_others: bool = False) -> Ending:
    """Return the ending of a run whose process died by itself.

    With others in it, which one did it cannot be told: none is charged, and each is tried alone next.
    """
    ending = new_ending(held, Outcome.CRASHED, "interrupt" if with_others else "retry")
    ending.exit_code = exit_code
    ending.error_class = "jobqueue.exceptions.JobCrashed"
    ending.error_text = describe_exit(exit_code) + ("; other jobs were in it, too" if with_others else "")
    ending.fingerprint = fingerprint(ending.error_class, str(exit_code), held.job.job_type)
    return ending


def describe_exit(code: int) -> str:
    """Return in words how a process ended: 'killed, signal 9 (possible OOM)'."""
    if code >= 0:
        return f"the process exited with code {code} while the job ran"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "?"
    if -code == signal.SIGKILL:
        return "killed, signal 9 (possible OOM): not by this worker"
    return f"crashed, signal {-code} ({name})"


def backoff(held: Held) -> timedelta:
    """Return the wait before the next attempt."""
    settings = get_settings()
    plain = Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS)
    return (held.policy.backoff if held.policy else plain).delay(max(1, held.job.attempts))
