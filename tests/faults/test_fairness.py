"""What keeps one load from being everybody's delay: queues with slots, priorities, keys that hold only their own."""

import statistics
from datetime import timedelta

import pytest

from jobqueue.models import Job
from jobqueue.states import Status
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, StatusOf, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import holds_for, until

from .measured import Recovery

LOAD, SECONDS = 10_000, 0.05


def flood(queue: str, *, owner: str = "A") -> None:
    """Enqueue ten thousand jobs of 50 ms, more than eight minutes of work for one slot."""
    spec = {"job_type": "probe.mark", "payload": {"seconds": SECONDS}, "queue": queue, "owner": owner}
    Job.objects.enqueue_many([spec] * LOAD)


def waited(job: Job) -> float:
    """Return the seconds between a job's enqueue and its claim."""
    done = Job.objects.get(pk=job.pk)
    return float((done.claimed_at - done.created_at).total_seconds())


@pytest.mark.short
def test_a_load_owns_its_own_queue_only(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C119: ten thousand of A's jobs, then one of B: at once in a queue of its own or by priority; else in its turn.

    The default is stated: within a queue and a priority, first come, first served, whoever the owner is.
    """
    launch("--queues", "bulk,mail", "--processes", "2")
    flood("bulk")
    effects.wait("start", times=10)

    other = enqueue("mail")  # its home is the queue "mail"
    urgent = enqueue("ok", _queue="bulk", _priority=10, _owner="B")
    in_turn = enqueue("ok", _queue="bulk", _owner="B")
    wait_for(other, within=5)
    wait_for(urgent, within=5)

    recovery("B's job in a queue of its own", waited(other), within=5)
    recovery("B's job of a better priority", waited(urgent), within=5)
    assert Job.objects.get(pk=in_turn.pk).status == Status.PENDING
    assert Job.objects.filter(queue="bulk", status=Status.PENDING).count() > LOAD / 2
    Job.objects.filter(queue="bulk", status=Status.PENDING, owner="A").delete()
    wait_for(in_turn)


def test_a_reserved_slot_is_never_taken_and_comes_back_after_a_kill(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C121: four long jobs and one slot for "mail": it starts at once; what a killed worker held blocks no slot.

    Slots are the worker's own, not rows in the database: nothing has to be given back before another worker has all.
    """
    options = ("--queues", "mail:1,default", "--processes", "4")
    first = launch(*options)
    finished([enqueue("ok") for _ in range(50)])  # short ones: from here on several are claimed for each slot
    slow = [job for job in Job.objects.enqueue_many([("probe.mark", {"seconds": 60})] * 4) if job]
    effects.wait("start", times=3)
    waits = []
    for _ in range(5):
        mail = wait_for(enqueue("mail"), within=3)
        waits.append(waited(mail))
    recovery("a job for the reserved slot beside long ones", statistics.median(waits), within=1)

    first.kill_all()
    second = launch(*options)
    mail = wait_for(enqueue("mail"), within=3)
    assert mail.worker_id == second.worker_id
    effects.wait("start", times=3 + 3, within=2 * LEASE_SECONDS + 5)
    holds_for(0.5, lambda: effects.count("start") == 6, what="one slot left to mail")

    epochs = [Job.objects.get(pk=job.pk).lease_epoch for job in slow]
    assert max(epochs) == 2, "the lost ones are taken up again once their leases are over"
    wait_for(enqueue("mail"), within=3)


def test_a_load_leaves_reserved_and_common_slots_to_the_others(
    launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery
) -> None:
    """C119: two slots of one worker, three queues, one of them flooded: the p95 of the others' waits stays short."""
    launch("--queues", "*", "--processes", "2")
    flood("bulk")
    effects.wait("start", times=10)

    others = []
    for number in range(30):
        others.append(enqueue("ok", _queue=("mail", "reports")[number % 2]))
        finished(others[-1:], within=5)

    waits = [waited(job) for job in others]
    recovery("p95 of the waits beside a flooded queue", statistics.quantiles(waits, n=20)[-1], within=1)
    assert Job.objects.filter(queue="bulk", status=Status.PENDING).count() > LOAD / 2
    Job.objects.filter(queue="bulk", status=Status.PENDING).delete()


def test_a_key_that_waits_holds_nothing_but_itself(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, status: StatusOf
) -> None:
    """C160: scheduled, waiting for a retry, or in a queue that nobody serves: refused and named, others go on."""
    launch("--queues", "default,mail", "--processes", "1", BACKOFF_BASE_SECONDS=5, BACKOFF_CAP_SECONDS=5)
    unserved = enqueue("ok", _queue="paused", _priority=0, _dedupe_key="unserved")
    later = enqueue("ok", _run_after=timedelta(hours=1), _dedupe_key="later", _priority=0)
    failing = enqueue("boom", _dedupe_key="failing", _priority=0, _max_attempts=2)
    until(lambda: status(failing) == Status.SCHEDULED, what="the wait for its retry")

    for holder in (unserved, later, failing):
        assert Job.objects.enqueue("probe.ok", {}, dedupe_key=holder.dedupe_key) is None
        named, created = Job.objects.get_or_enqueue("probe.ok", {}, dedupe_key=holder.dedupe_key or "")
        assert (named.pk, created) == (holder.pk, False)
    for number in range(20):
        wait_for(enqueue("ok", _dedupe_key=f"free{number}"), within=2)

    assert [status(job) for job in (unserved, later)] == [Status.PENDING, Status.SCHEDULED]
    wait_for(failing, Status.DEAD, within=15)
    wait_for(enqueue("ok", _dedupe_key="failing"), within=2)
    Job.objects.cancel(later.pk)
    wait_for(enqueue("ok", _dedupe_key="later"), within=2)
