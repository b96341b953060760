"""Who gets which job when: no slot idles, nothing waits behind what is long, queues have their share."""

import os
import time
from pathlib import Path

import pytest

from jobqueue.models import Job
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, StatusOf, WaitFor
from .test_outcomes import finished
from .waiting import holds_for, until


def test_a_free_slot_takes_the_next_job_while_others_are_busy(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C33: three of four run long; the fourth works on."""
    launch("--processes", "4", LEASE_SECONDS=60)
    for _ in range(3):
        enqueue("mark", seconds=3)
    effects.wait("start", times=3)

    for _ in range(3):
        assert wait_for(enqueue("ok"), within=2).attempts == 1

    assert effects.count("end") == 0


def test_a_worker_whose_slots_are_all_busy_takes_no_processor_time(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C72: with more jobs waiting than it has slots it sleeps until one ends."""
    worker = launch("--processes", "1", LEASE_SECONDS=60)
    long = enqueue("mark", seconds=2.5)
    effects.wait("start")
    waiting = [enqueue("ok") for _ in range(3)]
    before = processes.cpu_seconds(worker.pid)

    holds_for(1.5, lambda: Job.objects.get(pk=long.pk).status == Status.RUNNING)

    assert processes.cpu_seconds(worker.pid) - before < 0.3
    finished(waiting)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return the named pipe that probe.wait_at waits at: however slow the machine is, until a test opens it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def seconds_for_marks(count: int) -> float:
    """Return how long this machine, as busy as it is now, takes for as many short jobs that wait behind nothing."""
    began = time.monotonic()
    finished([job for job in Job.objects.enqueue_many([("probe.mark", {})] * count) if job], within=60)
    return time.monotonic() - began


def test_nothing_waits_behind_a_long_job(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, gate: Path
) -> None:
    """Jobs given ahead to a child whose job turns out long are run by the other within 200 ms or so."""
    launch("--processes", "2", LEASE_SECONDS=60)
    finished([enqueue("ok") for _ in range(300)], within=60)  # short jobs: many are given ahead
    alone = seconds_for_marks(100)
    before = len(effects.all("start"))
    nothing: dict[str, object] = {}
    specs = [("probe.ok", nothing)] * 40 + [("probe.wait_at", {"gate": str(gate)})] + [("probe.mark", nothing)] * 100
    jobs = Job.objects.enqueue_many(specs)
    long, short = jobs[40], jobs[41:]

    assert long is not None
    assert {job.status for job in finished([job for job in short if job], within=10 + 10 * alone)} == {Status.DONE}

    assert Job.objects.get(pk=long.pk).status == Status.RUNNING
    (start,) = effects.all("start", job_id=long.pk)
    waits = [(row.at - start.at).total_seconds() for row in effects.all("start")[before:] if row.job_id != long.pk]
    assert max(waits) < 1.5 + 5 * alone  # half the slots, and each job has its way through the database
    gate.write_bytes(b"x")
    wait_for(long)
    assert len(effects.all("start")) - before == 101


def test_nothing_waits_behind_a_long_job_that_holds_the_gil(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, gate: Path
) -> None:
    """C35: what was given ahead is taken back without the child's help."""
    launch("--processes", "2", LEASE_SECONDS=60)
    finished([enqueue("ok") for _ in range(200)], within=60)
    alone = seconds_for_marks(50)
    holding = ("probe.wait_at", {"gate": str(gate), "hold_gil": True})
    long, *short = Job.objects.enqueue_many([holding, *(("probe.mark", {}) for _ in range(50))])

    assert {job.status for job in finished([job for job in short if job], within=10 + 10 * alone)} == {Status.DONE}

    assert long is not None
    assert Job.objects.get(pk=long.pk).status == Status.RUNNING
    gate.write_bytes(b"x")
    wait_for(long)


def test_better_priority_runs_first(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    jobs = [enqueue("mark", _priority=priority) for priority in (100, 50, 150, 0, 100)]
    launch("--processes", "1")

    finished(jobs)

    order = [row.job_id for row in effects.all("start")]
    assert order == [jobs[index].pk for index in (3, 1, 0, 4, 2)]


def test_a_reserved_slot_waits_for_its_queue(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C121: with mail:1, a crowd of long jobs leaves one slot of three to mail."""
    launch("--queues", "mail:1,default", "--processes", "3", LEASE_SECONDS=60)
    for _ in range(6):
        enqueue("mark", seconds=2)
    effects.wait("start", times=2)

    holds_for(0.5, lambda: effects.count("start") == 2, what="two common slots")
    mail = wait_for(enqueue("mail"), within=1)

    assert (mail.run_started_at - mail.created_at).total_seconds() < 0.5


def test_queues_share_the_common_slots(launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects) -> None:
    """C119: a load in one queue does not keep another queue waiting."""
    launch("--queues", "*", "--processes", "2")
    Job.objects.enqueue_many([{"job_type": "probe.mark", "payload": {"seconds": 0.05}, "queue": "bulk"}] * 200)
    effects.wait("start", times=10)

    other = enqueue("mark", _queue="other")

    until(lambda: status(other) == Status.DONE, within=2, what="the other queue's turn")
    assert Job.objects.filter(queue="bulk", status=Status.PENDING).count() > 80


def test_a_new_queue_is_found_by_a_worker_of_all(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--queues", "*")
    wait_for(enqueue("ok", _queue="first-of-its-name"), within=3)
    wait_for(enqueue("ok", _queue="another.one"), within=3)


def test_a_key_that_runs_refuses_another_and_its_retry_keeps_it(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C37: while A runs or waits for its retry, B is refused; a lost worker changes nothing about that."""
    launch("--processes", "1")
    job = enqueue("flaky", failures=1, _dedupe_key="K")
    effects.wait("start")

    refused = Job.objects.enqueue("probe.ok", {}, dedupe_key="K")

    done = wait_for(job)
    assert refused is None or refused.created_at > done.finished_at
    after = Job.objects.enqueue("probe.ok", {}, dedupe_key="K")
    assert after is not None
    wait_for(after)


def test_max_jobs_ends_the_worker_after_so_many(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    jobs = [enqueue("mark", seconds=0.2) for _ in range(12)]
    worker = launch("--max-jobs", "7", "--processes", "2")

    assert worker.ends() == 0

    left = Job.objects.filter(pk__in=[job.pk for job in jobs], status=Status.PENDING)
    assert (effects.count("end"), left.count()) == (7, 5)
    assert {job.attempts for job in left} == {0}


def test_max_jobs_are_no_more_for_a_job_of_the_own_queue_that_is_given_back(
    launch: Launch, enqueue: Enqueue, make_job: Enqueue, effects: Effects
) -> None:
    """It was not counted when it was claimed: one of a newer release, whose type this worker does not know."""
    for _ in range(3):
        make_job(job_type="jobqueue.newer", queue="jobqueue")
    jobs = [enqueue("mark", seconds=0.5) for _ in range(4)]
    worker = launch("--max-jobs", "2", "--processes", "1", UNKNOWN_TYPE_RETRY_SECONDS=60)

    assert worker.ends() == 0

    assert Job.objects.filter(queue="jobqueue", status=Status.SCHEDULED).count() == 3
    assert (effects.count("end"), Job.objects.filter(pk__in=[job.pk for job in jobs], attempts=1).count()) == (2, 2)


def test_max_seconds_ends_the_worker_in_good_order(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    worker = launch("--max-seconds", "1", "--processes", "1")
    job = enqueue("mark", seconds=1.5)

    assert worker.ends(within=8) == 0

    assert Job.objects.get(pk=job.pk).status == Status.DONE


@pytest.mark.smoke
def test_a_drain_ends_when_the_queues_are_empty(launch: Launch, enqueue: Enqueue) -> None:
    jobs = [enqueue("ok") for _ in range(50)]
    worker = launch("--drain", wait=False)

    assert worker.ends() == 0

    assert {job.status for job in finished(jobs)} == {Status.DONE}
