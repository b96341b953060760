"""Hosts whose clocks are wrong, and clocks that are set while jobs run."""

import time
from pathlib import Path

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished

from .measured import Recovery
from .tools import need

RECLAIMED_WITHIN = LEASE_SECONDS + 1.1 * 0.2
HOUR = 3600


# With the monotonic clocks left alone, libfaketime 0.9.10 has clock_nanosleep() fail: Python's sleep, and nothing else.
SLEEP = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)
"""


@pytest.fixture
def wrong_clock(tmp_path: Path, worker_env: dict[str, str]) -> dict[str, str]:
    """Return the environment in which programs see another time of day; the monotonic clocks are the host's own."""
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SLEEP)
    return {
        "LD_PRELOAD": need("libfaketime"),
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
        "PYTHONPATH": f"{folder}:{worker_env['PYTHONPATH']}",
    }


def offset(wait_for: WaitFor, enqueue: Enqueue) -> float:
    """Return how far the clock of the only worker is ahead of this process's."""
    return float(wait_for(enqueue("stamp")).result) - time.time()


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_host_s_clock_decides_nothing(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    wrong_clock: dict[str, str],
    recovery: Recovery,
    minutes: int,
) -> None:
    """C51: one worker's clock is ten minutes off: it reaps nobody early, its own leases hold, and none is stuck."""
    skewed = launch("--processes", "1", env={**wrong_clock, "FAKETIME": f"{minutes:+d}m"})
    assert abs(offset(wait_for, enqueue) - minutes * 60) < 30
    right = launch("--processes", "1")
    jobs = [enqueue("mark", seconds=LEASE_SECONDS + 4) for _ in range(2)]

    one, other = finished(jobs, within=LEASE_SECONDS + 15)

    assert {one.worker_id, other.worker_id} == {skewed.worker_id, right.worker_id}
    assert one.attempts == other.attempts == 1
    assert effects.count("start") == 2
    assert not Attempt.objects.exists()
    for job in (one, other):
        assert abs((job.finished_at - effects.all("end", job_id=job.pk)[0].at).total_seconds()) < 2

    right.stop()
    right.ends()
    lost = enqueue("mark", seconds=60, _max_attempts=1)
    effects.wait("start", job_id=lost.pk)
    launch("--processes", "1", "--queues", "none")
    until_lost = Job.objects.get(pk=lost.pk).lease_until
    skewed.kill_all()
    killed_at = time.monotonic()

    dead = wait_for(lost, Status.DEAD, within=3 * LEASE_SECONDS)

    recovery("a lease of a skewed worker is over", time.monotonic() - killed_at, within=2 * RECLAIMED_WITHIN)
    assert dead.outcome == Outcome.LEASE_EXPIRED
    assert dead.finished_at >= until_lost


@pytest.mark.parametrize("step", ["+1h", "-1h"])
def test_a_clock_that_is_set_makes_nobody_late(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    wrong_clock: dict[str, str],
    tmp_path: Path,
    step: str,
) -> None:
    """C51, C165: the worker's clock is set by an hour in the middle of a run: no time-out, no lease lost or kept."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    worker = launch(
        *("--processes", "1"),
        LIMITS={"probe.mark": {"duration": LEASE_SECONDS + 4}},
        env={**wrong_clock, "FAKETIME_TIMESTAMP_FILE": str(clock)},
    )
    assert abs(offset(wait_for, enqueue)) < 30
    job = enqueue("mark", seconds=LEASE_SECONDS + 1)
    effects.wait("start")

    clock.write_text(step)

    assert wait_for(job).attempts == 1
    assert effects.count("start") == 1
    assert not Attempt.objects.exists()
    assert abs(abs(offset(wait_for, enqueue)) - HOUR) < 30
    late = wait_for(enqueue("limited", seconds=30, _max_attempts=1), Status.DEAD, within=10)
    assert late.outcome == Outcome.DEADLINE
    assert 0.9 < (late.finished_at - late.run_started_at).total_seconds() < 5
    assert "lost lease" not in worker.log
