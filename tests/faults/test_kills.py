"""Workers and children killed again and again with many jobs in flight: nothing lost, nothing accepted twice."""

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from django.db import connection
from django.db.models import Count, F, Max, Sum

from jobqueue.models import Attempt, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker import processes
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch
from tests.worker.launching import RunningWorker
from tests.worker.waiting import holds_for, until

from .measured import Recovery

IN_FLIGHT = 200
SLOTS = 260  # some jobs end between the last look and the kill
TICK_SECONDS = 0.2
NOISE_SECONDS = 2  # of a machine that runs other things, too
OFTEN = 1000  # attempts: these jobs are to survive whatever happens to their workers


def database_time() -> datetime:
    """Return the server's clock, by which everything here is measured."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    return now  # type: ignore[no-any-return]  # what the cursor returns is not typed


@dataclass
class Massacre:
    """Rounds of one worker each, which is killed while 200 of its jobs run."""

    launch: Launch
    effects: Effects
    chance: random.Random
    killed_at: dict[str, datetime] = field(default_factory=dict)
    enqueued: int = 0

    def enqueue(self, count: int) -> None:
        """Enqueue jobs of different lengths, so that a kill finds some starting, some running and some ending."""
        specs = [
            {"job_type": "probe.mark", "payload": {"seconds": self.chance.uniform(0.3, 2)}, "max_attempts": OFTEN}
            for _ in range(count)
        ]
        self.enqueued += len(Job.objects.enqueue_many(specs))

    def start(self) -> RunningWorker:
        """Start a worker with room for more than 200 jobs; it leaves the reaping to another."""
        return self.launch("--processes", "4", "--threads", str(SLOTS // 4), "--no-maintenance", wait=False)

    def kill(self, worker: RunningWorker) -> None:
        """Kill the whole tree while the worker is busy, at a moment that differs from round to round."""
        worker.ready()
        mine = Job.objects.filter(status=Status.RUNNING, worker_id=worker.worker_id)
        enough = (IN_FLIGHT + SLOTS) // 2
        until(lambda: mine.count() >= enough, within=20, what=lambda: f"{enough} in flight, {mine.count()} are")
        holds_for(self.chance.uniform(0, 0.8), lambda: worker.code is None)
        until(lambda: mine.count() >= enough, within=20, what=lambda: f"{enough} in flight, {mine.count()} are")
        self.killed_at[worker.worker_id] = database_time()
        worker.kill_all()

    def seconds_to_recover(self) -> list[float]:
        """Return, for each killed worker, how long after its death the last of its jobs was taken back."""
        last = dict(
            Attempt.objects.filter(outcome=Outcome.LEASE_EXPIRED)
            .values("worker_id")
            .annotate(last=Max("finished_at"), jobs=Count("pk"))
            .filter(jobs__gte=IN_FLIGHT)
            .values_list("worker_id", "last")
        )
        assert last.keys() == self.killed_at.keys()
        return [(last[worker] - killed_at).total_seconds() for worker, killed_at in self.killed_at.items()]


@pytest.mark.parametrize(
    ("rounds", "seed"),
    [pytest.param(3, 1, marks=pytest.mark.short), (25, 2), (25, 3)],
    ids=["a few", "first half", "second half"],
)
def test_a_worker_killed_with_200_jobs_in_flight_loses_none(
    launch: Launch, effects: Effects, recovery: Recovery, rounds: int, seed: int
) -> None:
    """C05, C32: all runnable again within a lease and a tick, each accepted once, every attempt accounted for.

    Fifty repeats, in two halves: no test may take five minutes. The next worker starts while the leases of the last one
    still run; a third one, which serves another queue, reaps.
    """
    launch("--queues", "reaping", "--processes", "1")
    massacre = Massacre(launch, effects, random.Random(seed))
    massacre.enqueue(4 * IN_FLIGHT)
    worker = massacre.start()
    for _ in range(rounds):
        doomed, worker = worker, massacre.start()
        massacre.kill(doomed)
        massacre.enqueue(SLOTS)
    worker.ready()
    until(lambda: not Job.objects.filter(status__in=[1, 2, 5]).exists(), within=120, what="the end of all jobs")

    within = LEASE_SECONDS + 1.1 * TICK_SECONDS + NOISE_SECONDS
    seconds = massacre.seconds_to_recover()
    assert len(seconds) == rounds
    recovery(f"200 jobs in flight runnable again, worst of {rounds}", max(seconds), within=within)
    recovery(f"200 jobs in flight runnable again, median of {rounds}", statistics.median(seconds), within=within)
    check_accounts(massacre, effects)


def check_accounts(massacre: Massacre, effects: Effects) -> None:
    """Assert that no job is missing, and that each run of each is accounted for: one accepted, the others lost."""
    jobs = Job.objects.filter(job_type="probe.mark")
    assert jobs.filter(status=Status.DONE).count() == jobs.count() == massacre.enqueued
    done = Stat.objects.filter(job_type="probe.mark", outcome=Outcome.DONE).aggregate(jobs=Sum("jobs"))["jobs"]
    assert done == massacre.enqueued, "counted once each: no outcome was accepted twice"
    lost = jobs.filter(attempts__gt=1).aggregate(lost=Sum(F("attempts") - 1))["lost"]
    rows = Attempt.objects.filter(job__job_type="probe.mark")
    assert set(rows.values_list("outcome", flat=True)) == {Outcome.LEASE_EXPIRED}
    assert rows.count() == lost >= IN_FLIGHT * len(massacre.killed_at)
    starts = [(row.job_id, row.lease_epoch) for row in effects.all("start")]
    assert len(starts) == len(set(starts)), "no claim started a handler twice"
    ends = {(row.job_id, row.lease_epoch) for row in effects.all("end")}
    accepted = set(jobs.values_list("pk", "lease_epoch"))
    assert accepted <= ends, "each job's last run is one that came to its end"


@contextmanager
def watching_others(effects: Effects, ids: set[int]) -> Iterator[None]:
    """Assert that of these jobs each has started once when all is over."""
    yield
    starts = [row.job_id for row in effects.all("start") if row.job_id in ids]
    assert sorted(starts) == sorted(ids)


def test_the_jobs_of_killed_children_are_closed_and_tried_again(
    launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery
) -> None:
    """C13: closed within two seconds, named for what it was, retried by policy; no zombie, the neighbours go on."""
    repeats = 12
    worker = launch("--processes", "3")
    others = {enqueue("mark", seconds=8).pk for _ in range(2)}
    effects.wait("start", times=2)
    seconds = []
    with watching_others(effects, others):
        for _ in range(repeats):
            job = enqueue("tidy_stop", seconds=0.1, _max_attempts=2)
            (start,) = effects.wait("start", job_id=job.pk)
            killed_at = database_time()
            processes.kill(start.pid)
            if (attempt := until_closed(job)) is not None:
                seconds.append((attempt.finished_at - killed_at).total_seconds())
            until(lambda: Job.objects.get(pk=job.pk).status == Status.DONE, what="the retry's good end")  # noqa: B023
            until(lambda: processes.stat_fields(start.pid) == [], within=2, what="the dead child to be reaped")  # noqa: B023

    recovery(f"attempt of a killed child closed, worst of {len(seconds)}", max(seconds), within=2)
    assert len(seconds) >= repeats // 2
    assert worker.code is None


def until_closed(job: Job) -> Attempt | None:
    """Return the attempt that the kill cost, or None where the handler had ended before it."""
    until(lambda: Job.objects.get(pk=job.pk).status != Status.RUNNING, what="the attempt's end")
    attempt = Attempt.objects.filter(job=job).first()
    if attempt is not None:
        assert (attempt.outcome, attempt.exit_code, attempt.number) == (Outcome.CRASHED, -9, 1)
        assert "killed, signal 9 (possible OOM)" in attempt.error_text
    return attempt
