"""Endings that the supervisor writes for runs that could not tell their own."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobqueue.backoff import Backoff
from jobqueue.children.protocol import CANCEL, DEADLINE, INTERRUPT
from jobqueue.handlers import Policy
from jobqueue.limits import Limits
from jobqueue.managers import ClaimedJob
from jobqueue.outcomes import Outcome
from jobqueue.worker.endings import MEMORY, crashed, describe_exit, stopped
from jobqueue.worker.holding import Held, HeldJobs
from jobqueue.worker.reports import Reports


@pytest.fixture
def held() -> Callable[..., Held]:
    """Return the function that makes an entry of a claimed job, with a policy unless told otherwise."""

    def make(*, on_deadline: str = "retry", with_policy: bool = True) -> Held:
        job = ClaimedJob(7, 3, "probe.ok", "default", 100, 0, 2, 3, 0, "", 2, "{}", None, None)
        item = Held(job, 0.0)
        if with_policy:
            item.policy = Policy(
                name="probe.ok",
                queue="default",
                priority=100,
                max_attempts=3,
                backoff=Backoff(base=10, jitter=0),
                limits=Limits(duration=2, memory_bytes=64 * 2**20),
                on_deadline=on_deadline,  # type: ignore[arg-type]
                is_async=False,
            )
        return item

    return make


@pytest.mark.parametrize(
    ("reason", "outcome", "step", "limit", "words"),
    [
        (DEADLINE, Outcome.DEADLINE, "retry", True, "deadline of 2 s exceeded"),
        (MEMORY, Outcome.MEMORY, "dead", True, "memory limit of 64 MB exceeded"),
        (CANCEL, Outcome.CANCELLED, "cancel", False, "cancelled"),
        (INTERRUPT, Outcome.INTERRUPTED, "interrupt", False, "no fault of its own"),
    ],
)
def test_a_reason_gives_outcome_step_and_text(
    held: Callable[..., Held], reason: str, outcome: Outcome, step: str, limit: bool, words: str
) -> None:
    ending = stopped(held(), reason, -9)

    assert (ending.outcome, ending.step, ending.limit_hit, ending.exit_code) == (outcome, step, limit, -9)
    assert words in (ending.error_text or "")
    assert ending.fingerprint


def test_a_deadline_for_good(held: Callable[..., Held]) -> None:
    assert stopped(held(on_deadline="dead"), DEADLINE).step == "dead"


def test_a_job_without_a_policy_ends_too(held: Callable[..., Held]) -> None:
    """C58: its handler's module could not be imported, and still it may have to be stopped."""
    ending = stopped(held(with_policy=False), DEADLINE)

    assert "deadline of 300 s" in (ending.error_text or "")


def test_a_crash_that_others_shared_is_charged_to_none(held: Callable[..., Held]) -> None:
    """C10: its outcome stays 'crashed', by which the next worker knows to try it alone."""
    ending = crashed(held(), -11, with_others=True)

    assert (ending.outcome, ending.step) == (Outcome.CRASHED, "interrupt")


def test_a_crash_waits_by_the_backoff_of_its_type(held: Callable[..., Held]) -> None:
    """C10: charged like a failure; the second attempt's wait."""
    ending = crashed(held(), -11)

    assert (ending.outcome, ending.step, ending.delay) == (Outcome.CRASHED, "retry", timedelta(seconds=20))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "the process exited with code 0 while the job ran"),
        (3, "the process exited with code 3 while the job ran"),
        (-9, "killed, signal 9 (possible OOM): not by this worker"),
        (-11, "crashed, signal 11 (SIGSEGV)"),
        (-6, "crashed, signal 6 (SIGABRT)"),
        (-63, "crashed, signal 63 (?)"),
    ],
)
def test_an_exit_is_told_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


@pytest.mark.parametrize(
    ("killed_at", "outcome", "step"),
    [(1.0, Outcome.INTERRUPTED, "interrupt"), (None, Outcome.CRASHED, "retry")],
    ids=["by this worker", "by itself"],
)
def test_who_was_in_a_child_that_this_worker_killed_is_not_charged(
    held: Callable[..., Held], killed_at: float | None, outcome: Outcome, step: str
) -> None:
    """The one that it was killed for may have ended in the last moment, and is none of those that died with it."""
    neighbour, ends = held(), []
    neighbour.started = 1.0
    child: Any = SimpleNamespace(
        recall=list, own=False, unsent=[], queue={neighbour.fence: neighbour}, killed_at=killed_at, finished=id
    )
    pool: Any = SimpleNamespace(bury=id)
    reports = Reports(pool, HeldJobs(), limit=lambda: True)
    reports.settler = SimpleNamespace(add=lambda _, end: ends.append(end))  # type: ignore[assignment]
    reports.hands = SimpleNamespace(put_back=list)  # type: ignore[assignment]

    reports.died(child, -9)

    assert [(end.outcome, end.step) for end in ends] == [(outcome, step)]
