"""Jobs and transactions: those that enqueue, those that handlers leave open, and the one that finishes a job."""

from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .conftest import idle_transactions
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import holds_for, until


def test_a_job_starts_after_its_commit_and_never_after_a_rollback(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C21: commit, rollback, an inner savepoint rolled back, autocommit."""
    launch()
    with transaction.atomic():
        Group.objects.create(name="committed")
        committed = enqueue("touch", name="committed")
        with transaction.atomic():
            rolled_back_inside = enqueue("touch", name="inner")
            transaction.set_rollback(True)
        holds_for(0.5, lambda: Job.objects.get(pk=committed.pk).status == Status.PENDING, what="not begun")
    with transaction.atomic():
        Group.objects.create(name="rolled back")
        rolled_back = enqueue("touch", name="rolled back")
        transaction.set_rollback(True)
    Group.objects.create(name="autocommit")
    plain = enqueue("touch", name="autocommit")

    assert wait_for(committed).result == "committed"
    assert wait_for(plain).result == "autocommit"
    assert not Job.objects.filter(pk__in=[rolled_back.pk, rolled_back_inside.pk]).exists()


@pytest.mark.parametrize("arguments", [(), ("--threads", "2")], ids=["one slot", "threads"])
def test_a_connection_left_in_a_state_hurts_nobody(
    launch: Launch, enqueue: Enqueue, arguments: tuple[str, ...]
) -> None:
    """C23: a swallowed error, an open transaction, a closed connection or socket: the next job asks as usual."""
    worker = launch("--processes", "1", *arguments)
    breaking = {
        how: enqueue("breaks_connection", how=how)
        for how in ("swallowed", "open", "atomic", "closed", "closed_inside", "socket", "session")
    }
    after = [enqueue("orm") for _ in breaking]

    ended = dict(zip(breaking, finished(list(breaking.values())), strict=True))

    assert {how: Status(job.status) for how, job in ended.items()} == dict.fromkeys(breaking, Status.DONE)
    assert {job.status for job in finished(after)} == {Status.DONE}
    assert not Group.objects.filter(name__in=["never committed", "twice"]).exists()
    assert worker.code is None


def test_a_commit_hook_that_fails_fails_the_attempt(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C20: as documented, and the worker lives."""
    launch()
    dead = wait_for(enqueue("on_commit"), Status.DEAD)

    assert dead.last_error == "on_commit boom"
    wait_for(enqueue("ok"))


def test_no_connection_of_a_worker_sits_in_a_transaction(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C115: neither while a job runs nor while idle, even where the project turns AUTOCOMMIT off."""
    launch(env={"PROBE_AUTOCOMMIT": "off"})
    job = enqueue("mark", seconds=1.5)
    effects.wait("start")

    holds_for(2.5, lambda: not idle_transactions(), what="a connection idle in transaction")

    assert wait_for(job).outcome == Outcome.DONE
    assert len(role_connections()) >= 5


def role_connections() -> list[str]:
    """Return the application names of workers' own connections."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobqueue%'"
        )
        return [row[0] for row in cursor.fetchall()]


# -- context.complete() -----------------------------------------------------------------------------------------------


def test_a_job_finished_in_its_own_transaction_has_its_effects_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C19: whatever happens after the commit, the job is DONE and is not run again."""
    worker = launch("--processes", "1")
    jobs = {then: enqueue("complete", name=f"after-{then}", then=then) for then in ("", "kill", "raise_after")}
    for job in jobs.values():
        done = wait_for(job)
        assert (done.result, done.attempts, done.cost_total) == ({"by": "complete"}, 1, Decimal("0.25"))
    wait_for(enqueue("ok"))

    names = [name.rpartition("-")[0] for name in Group.objects.values_list("name", flat=True)]
    assert sorted(names) == sorted(f"after-{then}" for then in jobs)
    assert not Attempt.objects.exists()
    amounts = Cost.objects.filter(job_type="probe.complete").values_list("amount", flat=True)
    assert sum(amounts) == Decimal("0.75")
    counts = Stat.objects.filter(job_type="probe.complete").values_list("jobs", flat=True)
    until(lambda: sum(counts.all()) == 3)
    assert worker.code is None


def test_complete_is_refused_where_it_would_not_be_once(launch: Launch, enqueue: Enqueue) -> None:
    """Outside of a transaction, twice; and with an error inside, the block rolls back as a whole."""
    launch()
    words = {"outside": "needs an open transaction.atomic", "twice": "called twice", "raise_inside": "inside"}

    ended = finished([enqueue("complete", name="none", then=then) for then in words])
    for dead, text in zip(ended, words.values(), strict=True):
        assert (dead.status, dead.attempts) == (Status.DEAD, 2)
        assert text in dead.last_error
    assert not Group.objects.exists()


def test_complete_rolls_back_when_the_lease_is_lost(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C01: with another owner in the row the block raises LeaseLost, and nothing of it stays."""
    worker = launch("--processes", "1", LEASE_SECONDS=30)
    job = enqueue("complete", name="lost", then="lost")
    effects.wait("start")

    Job.objects.filter(pk=job.pk).update(worker_id="another", lease_epoch=7)

    worker.says("lost lease")
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.worker_id, after.result) == (Status.RUNNING, "another", None)
    assert not Group.objects.exists()
    assert not Cost.objects.exists()
    Job.objects.filter(pk=job.pk).update(status=Status.DONE)
