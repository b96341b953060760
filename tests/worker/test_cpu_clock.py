"""The processor clock of a child: a job is charged for its own work, and for what a child does from job to job."""

import time
from typing import Any

import pytest

from jobqueue.children import processes
from jobqueue.children.processes import AT_ONCE_SECONDS, CpuClock


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    stub: Any = type("time", (), {"monotonic": clock, "process_time": time.process_time})
    monkeypatch.setattr(processes, "time", stub)
    return clock


def burn() -> None:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass


def test_a_job_that_follows_at_once_starts_where_the_last_one_ended(monotonic: Clock) -> None:
    clock = CpuClock()
    ended = clock.read()

    monotonic.now += AT_ONCE_SECONDS / 2

    assert clock.start() == ended


def test_what_came_between_two_jobs_is_charged_to_neither(monotonic: Clock) -> None:
    """Receivers, signals of a killed neighbour, a thread that a handler left running."""
    clock = CpuClock()
    ended = clock.read()

    burn()
    monotonic.now += 0.02

    assert clock.start() >= ended + 0.02


def test_the_first_job_is_not_charged_for_the_start_of_its_process(monotonic: Clock) -> None:
    burn()

    assert CpuClock().start() >= 0.02
