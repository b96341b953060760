"""The figures of what a real worker ran, through its own settles and its own folding, beside what its jobs say."""

from datetime import timedelta

import pytest

from jobqueue.histograms import bucket_of, counts_of
from jobqueue.models import Job, Stat
from jobqueue.ops.statistics import Figures, figures
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import StatFactory, ago

from .kinds import Enqueue, Launch
from .test_outcomes import finished
from .waiting import until

DAY = 86_400
HOUR = timedelta(hours=1)


def sums(found: dict[tuple[str, ...], Figures]) -> dict[str, tuple[object, ...]]:
    return {
        key[0]: (one.outcomes, one.dead, one.run_counts, one.wait_counts)
        for key, one in found.items()
        if not key[0].startswith("jobqueue.")
    }


def test_a_real_workers_runs_are_all_in_the_figures_and_folding_changes_none(launch: Launch, enqueue: Enqueue) -> None:
    launch()
    finished(
        [enqueue("ok") for _ in range(40)]
        + [enqueue("sleep", seconds=0.3) for _ in range(4)]
        + [enqueue("boom", _max_attempts=2) for _ in range(3)]
        + [enqueue("segv", _max_attempts=1)]
    )
    by_type = figures(HOUR, by=("job_type",))
    jobs = {name: list(Job.objects.filter(job_type=name)) for name in ("probe.ok", "probe.sleep")}

    found = sums(by_type)
    assert {name: outcomes for name, (outcomes, *_) in found.items()} == {
        "probe.ok": {Outcome.DONE: 40},
        "probe.sleep": {Outcome.DONE: 4},
        "probe.boom": {Outcome.FAILED: 6},
        "probe.segv": {Outcome.CRASHED: 1},
    }
    assert {name: dead for name, (_, dead, *_) in found.items() if dead} == {"probe.boom": 3, "probe.segv": 1}
    for name, rows in jobs.items():
        waits = [(job.claimed_at - job.run_after).total_seconds() for job in rows]
        assert by_type[(name,)].wait_counts == counts_of(waits)
        assert by_type[(name,)].wait_seconds == pytest.approx(sum(waits))
    naps = by_type[("probe.sleep",)]
    assert naps.run_p50 is not None
    assert bucket_of(0.3) <= bucket_of(naps.run_p50) <= bucket_of(0.3) + 2
    assert by_type[("probe.boom",)].failure_rate == 1.0

    # The rows of the settles are two seconds old soon; the worker folds what is.
    until(lambda: not Stat.objects.filter(span_seconds=0).exists(), within=20, what="all statistics folded")
    assert sums(figures(HOUR, by=("job_type",))) == found


def test_a_worker_prunes_what_is_past_its_retention(launch: Launch, enqueue: Enqueue) -> None:
    StatFactory.create(at=ago(400 * DAY), span_seconds=900)
    kept = StatFactory.create(at=ago(390 * DAY), span_seconds=900)

    launch("--processes", "1")

    until(lambda: [*Stat.objects.filter(span_seconds=900)] == [kept], within=10, what="the old row deleted")
    job = enqueue("ok")
    assert finished([job])[0].status == Status.DONE
    assert figures(HOUR, by=())[()].done == 1
