"""PgBouncer in transaction mode between everybody and the database: nothing is missed, and nothing stays behind."""

import signal
from datetime import timedelta
from time import monotonic

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobqueue.models import Attempt, Job, Worker
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.admin.conftest import DEAD, JOBS, client_of, operator
from tests.admin.test_acting import choose, hidden_fields
from tests.faults.measured import Recovery
from tests.faults.pgbouncer import PgBouncer
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.test_waking import sleepy, started_after

__all__ = ["client_of", "operator"]

DEAF = "LISTEN brings nothing here"
# No other worker lives, so the new one waits a lease before it reaps; twice that for a noisy machine.
RECLAIMED_WITHIN = 4 * LEASE_SECONDS
NO_LISTEN_DSN = {"JOBQUEUE_LISTEN_DSN": ""}
BOTH_KINDS = pytest.mark.parametrize(
    "prepared",
    [
        pytest.param("on", id="limits refused"),
        pytest.param(
            "off",
            marks=pytest.mark.pooler(ignore_startup_parameters="extra_float_digits,options", server_round_robin=1),
            id="limits dropped",
        ),
    ],
)


def database() -> str:
    """Return the name of the test database."""
    return str(connection.settings_dict["NAME"])


@BOTH_KINDS
def test_four_workers_share_four_pooled_connections(
    prepared: str, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, pooler: PgBouncer
) -> None:
    """C68: 1,000 short jobs and 4 of two leases each, one run each; workers poll and say so once; nothing stays set."""
    workers = [launch("--processes", "2", PREPARED=prepared, env=NO_LISTEN_DSN) for _ in range(4)]
    longer = [enqueue("mark", seconds=2 * LEASE_SECONDS) for _ in range(4)]
    effects.wait("start", times=4)
    bulk = Job.objects.enqueue_many([("probe.ok", {"number": number}) for number in range(700)])
    single = [enqueue("ok", _dedupe_key=f"key-{number}") for number in range(200)]
    orm = [enqueue("orm") for _ in range(100)]
    flaky = [enqueue("flaky", failures=1) for _ in range(10)]
    inside = enqueue("complete", name="through the pooler")

    ended = finished([*single, *orm, inside, *(job for job in bulk if job)], within=40)
    assert {(job.status, job.attempts) for job in ended} == {(Status.DONE, 1)}
    assert {(job.status, job.attempts) for job in finished(flaky)} == {(Status.DONE, 2)}
    for job in longer:
        assert (wait_for(job).attempts, effects.count("start", job_id=job.pk)) == (1, 1)
    assert [worker.log.count(DEAF) for worker in workers] == [1] * 4
    assert not Worker.objects.filter(idle_since__isnull=False).exists(), "nobody is notified who cannot hear"
    assert pooler.left_set(database()) == []


def test_a_killed_workers_jobs_come_back_and_a_stopped_one_gives_its_back(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, pooler: PgBouncer, recovery: Recovery
) -> None:
    """C68: reap and release through the pooler, then one more worker takes both."""
    killed, stopped = (launch("--processes", "1", SHUTDOWN_TIMEOUT=0.3) for _ in range(2))
    jobs = [enqueue("mark", seconds=6) for _ in range(2)]
    effects.wait("start", times=2)

    stopped.stop(signal.SIGTERM)
    assert stopped.ends(within=5) == 3
    killed.kill_all()
    third = launch("--processes", "2")
    serves = monotonic()
    effects.wait("start", times=4, within=RECLAIMED_WITHIN)

    recovery("a killed worker's job runs again", monotonic() - serves, within=RECLAIMED_WITHIN)
    kinds = sorted(Attempt.objects.values_list("outcome", flat=True))
    assert kinds == sorted([Outcome.LEASE_EXPIRED, Outcome.INTERRUPTED])
    for job in jobs:
        assert wait_for(job).worker_id == third.worker_id
    assert pooler.left_set(database()) == []


def test_people_act_through_the_pooler(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, pooler: PgBouncer, operator: Client
) -> None:
    """C68: retry, discard and cancel in the admin, a running job stopped by the hint, redrive, snapshot."""
    launch("--processes", "1", LEASE_SECONDS=60)
    dead = finished([enqueue("boom", _max_attempts=1) for _ in range(6)])
    running = enqueue("tidy_stop", seconds=60)
    effects.wait("start")
    waiting = enqueue("ok", _run_after=timedelta(hours=1))

    operator.post(reverse(DEAD), choose("retry", *dead[:3]))
    for page, verb, job in ((DEAD, "discard", dead[5]), (JOBS, "cancel", waiting), (JOBS, "cancel", running)):
        asked = operator.post(reverse(page), choose(verb, job))
        operator.post(reverse(page), hidden_fields(asked.content.decode()) | {"reason": "not needed"})
    assert list(Job.objects.redrive([dead[3].pk]).changed) == [dead[3].pk]

    ended = wait_for(running, Status.CANCELLED)
    assert (ended.finished_at - ended.cancel_requested_at).total_seconds() < 1
    assert {job.lease_epoch for job in finished(dead[:4])} == {2}
    assert {wait_for(job, Status.CANCELLED).status for job in (waiting, dead[5])} == {Status.CANCELLED}
    assert Job.objects.ops() is not None
    assert pooler.left_set(database()) == []


def test_a_listener_that_goes_straight_hears(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C68: with LISTEN_DSN a sleeping worker starts a job at once, far from its poll."""
    sleepy(launch)

    waits = [started_after(wait_for(enqueue("ok"), within=10)) for _ in range(5)]

    assert sorted(waits)[2] < 0.2
