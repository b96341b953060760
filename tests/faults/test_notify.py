"""What hints carry, how many there are, and that any queue's name works or is refused with the reason."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from jobqueue.models import Job
from jobqueue.states import Status
from tests.faults.measured import Recovery
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.test_waking import sleepy, started_after

Heard = Callable[[], list[str]]

WRITERS, TRANSACTIONS = 8, 25
LONGEST_HINT_BYTES = 100
STARTS_WITHIN = 1.5  # far from the poll, which is 30 s
TOO_LONG = ["q" * 80, "é" * 40]
STRANGE = ["a.b", "A b", "x'y", 'x"y', "sélect;--", "q" * 63, "é" * 31, "", "*", "!cancel w1", "a,b", "a:2", "a\x00b"]


def test_large_payloads_and_many_jobs_wake_by_a_short_hint(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, heard: Heard, recovery: Recovery
) -> None:
    """C64: 200 KB, 5,000 at once, names and keys of full length; a notification takes 8,000 bytes at most."""
    sleepy(launch)

    large = wait_for(enqueue("echo", value="x" * 200_000, _queue="q" * 63, _dedupe_key="k" * 255), within=5)
    made = [job for job in Job.objects.enqueue_many([("probe.ok", {"x": "x" * 200})] * 5_000) if job]
    done = finished(made, within=60)

    assert len(large.result) == 200_000
    recovery("a job of 200 KB starts", started_after(large), within=STARTS_WITHIN)
    assert {job.status for job in done} == {Status.DONE}
    hints = heard()
    assert hints
    assert max(len(hint.encode()) for hint in hints) <= LONGEST_HINT_BYTES
    assert len(hints) < 50, "hints do not grow with the number of jobs"


@pytest.mark.short
def test_a_queues_name_is_refused_with_the_reason_or_works(launch: Launch, wait_for: WaitFor) -> None:
    """C67: refused when enqueued, in bytes; what is accepted is woken for as fast as any other."""
    sleepy(launch)
    worked: dict[str, float] = {}
    refused: dict[str, str] = {}

    for name in (*TOO_LONG, *STRANGE):
        try:
            job = Job.objects.enqueue("probe.ok", queue=name)
        except ValueError as error:
            refused[name] = str(error)
        else:
            worked[name] = started_after(wait_for(job, within=10))

    assert {"q" * 63, "a.b"} <= worked.keys()
    assert max(worked.values()) < STARTS_WITHIN, worked
    assert [name for name in TOO_LONG if "63 bytes" in refused[name]] == TOO_LONG
    assert [name for name, reason in refused.items() if "queue" not in reason] == []


def test_a_worker_refuses_a_queue_whose_name_is_too_long(launch: Launch) -> None:
    """C67: LISTEN or a claim that cut it silently would wait for ever."""
    for name in TOO_LONG:
        worker = launch("--queues", name, wait=False)

        assert worker.ends(within=20) == 2
        assert "63 bytes" in worker.log


@pytest.mark.parametrize("notify", [True, False])
def test_parallel_writers_notify_once_a_transaction_at_most(
    notify: bool, make_worker: Callable[..., Any], heard: Heard, transactional_db: None, settings: Any
) -> None:
    """C65: each transaction writes five rows and enqueues three jobs, one of them in a savepoint; off means none."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFY": notify}
    make_worker(idle=True, queues=["*"])

    def write(writer: int) -> None:
        try:
            for number in range(TRANSACTIONS):
                with transaction.atomic():
                    for row in range(5):
                        Group.objects.create(name=f"{writer}-{number}-{row}")
                    Job.objects.enqueue("probe.ok")
                    with transaction.atomic():
                        Job.objects.enqueue("probe.ok")
                    Job.objects.enqueue_many([("probe.ok", {})])
        finally:
            connection.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))

    assert Job.objects.count() == 3 * WRITERS * TRANSACTIONS
    assert Group.objects.count() == 5 * WRITERS * TRANSACTIONS
    assert heard() == ["default"] * (WRITERS * TRANSACTIONS if notify else 0)
