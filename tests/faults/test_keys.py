"""Dedupe keys under failures, lost workers and a crowd: one active job a key, and nobody's transaction is broken."""

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import ACTIVE, Status
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import holds_for

CROWD, ROUNDS = 50, 20
Recovery = Any


def active(key: str) -> list[int]:
    """Return the active jobs of a key."""
    return list(Job.objects.filter(dedupe_key=key, status__in=ACTIVE).values_list("pk", flat=True))


def second(key: str) -> Job | None:
    """Enqueue another job of the key."""
    return Job.objects.enqueue("probe.ok", dedupe_key=key)


@pytest.mark.short
def test_a_job_that_fails_keeps_its_key_until_it_is_dead(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C37: B is refused while A runs and while A waits for its retry; when A is dead B runs, and A cannot come back."""
    worker = launch("--processes", "1")
    first = enqueue("sleep_then_boom", seconds=0.7, _dedupe_key="K", _max_attempts=2)
    for attempt in (1, 2):
        effects.wait("start", times=attempt)
        assert second("K") is None
        assert active("K") == [first.pk]

    assert wait_for(first, Status.DEAD).attempts == 2
    other = second("K")
    assert other is not None
    assert active("K") in ([other.pk], [])
    wait_for(other)
    held = Job.objects.enqueue("probe.sleep", {"seconds": 0.5}, dedupe_key="K")
    assert held is not None
    moved = Job.objects.redrive([first.pk])
    assert moved.refused == {first.pk: f"blocked by #{held.pk}"}
    assert Job.objects.get(pk=first.pk).status == Status.DEAD
    wait_for(held)
    assert worker.code is None


def test_a_job_whose_worker_is_killed_keeps_its_key(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C37, the reaper's path: B is refused while A's lease runs out and after the reap; A runs again, alone."""
    lost = launch("--processes", "1")
    first = enqueue("mark", seconds=2, _dedupe_key="K")
    effects.wait("start")
    lost.kill_all()
    other = launch("--processes", "1")

    holds_for(1, lambda: second("K") is None and active("K") == [first.pk])
    done = wait_for(first, within=4 * LEASE_SECONDS)

    assert (done.attempts, done.lease_epoch) == (2, 2)
    attempt = done.attempt_rows.get()
    assert (attempt.outcome, attempt.worker_id) == (Outcome.LEASE_EXPIRED, lost.worker_id)
    until_reaped = (attempt.finished_at - attempt.claimed_at).total_seconds()
    recovery("a keyed job reaped after its claim", until_reaped, within=3 * LEASE_SECONDS + 3)
    after = second("K")
    assert after is not None
    wait_for(after)
    assert other.code is None


def test_of_fifty_at_a_barrier_one_enqueues_and_all_transactions_commit(
    transactional_db: None, effects: Effects
) -> None:
    """C39: twenty rounds on one key each, half of the crowd inside a transaction with a row of its own."""
    barrier = threading.Barrier(CROWD, timeout=60)
    answers: list[tuple[int, int, bool]] = []
    errors: list[BaseException] = []

    def enqueue(number: int) -> None:
        try:
            for turn in range(ROUNDS):
                barrier.wait()
                if number % 2:
                    with transaction.atomic():
                        Group.objects.create(name=f"{turn}-{number}")
                        job, created = Job.objects.get_or_enqueue("probe.ok", dedupe_key=f"K{turn}")
                        Group.objects.create(name=f"{turn}-{number}-after")
                else:
                    job, created = Job.objects.get_or_enqueue("probe.ok", dedupe_key=f"K{turn}")
                answers.append((turn, job.pk, created))
        except BaseException as error:
            errors.append(error)
            barrier.abort()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=enqueue, args=[number]) for number in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert sorted(turn for turn, _, created in answers if created) == list(range(ROUNDS))
    assert {(turn, pk) for turn, pk, _ in answers} == {
        (int(job.dedupe_key[1:]), job.pk) for job in Job.objects.all() if job.dedupe_key
    }
    assert (Job.objects.count(), len(answers)) == (ROUNDS, ROUNDS * CROWD)
    assert Group.objects.count() == ROUNDS * CROWD, "the losers' rows are there too"
