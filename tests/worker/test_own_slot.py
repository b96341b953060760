"""The slot that every worker keeps for the package's own jobs: never behind the backlog, never in its way."""

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from jobqueue.models import Job, Worker
from jobqueue.states import Status
from jobqueue.worker.own import IDLE_SECONDS, OwnSlot
from jobqueue.worker.pool import RECEIVERS_SECONDS
from jobqueue.worker.queues import Deal

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import holds_for, until

NOTICE = {
    "job_id": 1,
    "job_type": "probe.ok",
    "queue": "default",
    "owner": "",
    "outcome": 2,
    "reason": "dead",
    "error_class": "RuntimeError",
    "error_text": "boom",
    "attempts": 1,
}
SLOWLY = {"NOTIFIERS": "tests.probe.telling.tell_slowly"}
SECOND = timedelta(seconds=1)


def enqueue_notice(**options: Any) -> Job:
    job = Job.objects.enqueue("jobqueue.notify", NOTICE, **options)
    assert job is not None
    return job


def test_a_notice_waits_neither_for_busy_slots_nor_behind_the_backlog(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """Every slot has a handler of a minute, and ten thousand jobs are due: a dead letter is told of within 2 s."""
    enqueue("mark", seconds=60, _priority=0)
    dead = enqueue("boom", _priority=1, _max_attempts=1)
    Job.objects.enqueue_many([("probe.mark", {"seconds": 60})] * 10_000)
    worker = launch("--processes", "2", LEASE_SECONDS=60, SHUTDOWN_TIMEOUT=0.2)
    worker.expected_to_end = True

    ended = wait_for(dead, Status.DEAD)

    notice = Job.objects.get(job_type="jobqueue.notify")
    told = wait_for(notice, within=5)
    assert (told.finished_at - ended.finished_at).total_seconds() < 2
    effects.wait("start", times=2)
    assert effects.count("end") == 0, "both slots are busy all the time"
    assert len(worker.children) == 3


def test_it_is_found_within_a_second_or_so_by_a_worker_that_nobody_wakes(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """All slots are busy, so the worker is not marked idle; its poll is long."""
    worker = launch("--processes", "1", LEASE_SECONDS=60, POLL_SECONDS=30, SHUTDOWN_TIMEOUT=0.2)
    worker.expected_to_end = True
    enqueue("mark", seconds=60)
    effects.wait("start")
    for _ in range(2):
        told = wait_for(enqueue_notice(), within=5)

        assert (told.run_started_at - told.created_at).total_seconds() < 2


def test_a_hint_wakes_an_idle_worker_for_it(launch: Launch, wait_for: WaitFor) -> None:
    launch("--processes", "1", "--queues", "mail", LEASE_SECONDS=60, POLL_SECONDS=30)
    until(lambda: Worker.objects.get().idle_since, what="the worker sleeps")

    told = wait_for(enqueue_notice(), within=5)

    assert (told.run_started_at - told.created_at).total_seconds() < 1


def test_a_worker_of_other_queues_runs_them_too(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1", "--queues", "mail")

    wait_for(enqueue_notice())

    assert (Worker.objects.get().queues, Worker.objects.get().slots) == (["mail", "jobqueue"], 1)
    other = enqueue("ok")
    holds_for(0.5, lambda: Job.objects.get(pk=other.pk).status == Status.PENDING, what="nobody serves default")


def test_they_take_no_slot_of_the_others(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """Ten that take a second each run one after another, beside all slots."""
    launch("--processes", "1", **SLOWLY)
    notices = [enqueue_notice(priority=0) for _ in range(10)]
    until(lambda: Job.objects.filter(queue="jobqueue", status=Status.RUNNING).exists(), what="the first")

    for _ in range(3):
        wait_for(enqueue("ok"), within=3)

    left = Job.objects.filter(pk__in=[job.pk for job in notices]).exclude(status=Status.DONE)
    assert left.count() >= 5
    left.update(status=Status.CANCELLED)


def test_slots_that_are_given_to_them_by_name_run_them_beside(launch: Launch) -> None:
    launch("--processes", "2", "--queues", "jobqueue:1,default", **SLOWLY)
    for _ in range(4):
        enqueue_notice()

    finished(list(Job.objects.filter(queue="jobqueue")))
    runs = sorted(Job.objects.filter(queue="jobqueue").values_list("run_started_at", "finished_at"))
    assert any(later[0] < earlier[1] for earlier, later in pairwise(runs)), "some ran side by side"


def test_its_child_is_forked_when_it_is_needed(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch("--processes", "1")
    wait_for(enqueue("ok"))
    assert len(worker.children) == 1

    wait_for(enqueue_notice())

    (first, second) = worker.children
    assert first != second


def test_a_child_that_dies_in_it_is_replaced(launch: Launch, wait_for: WaitFor, enqueue: Enqueue) -> None:
    """Its job is charged and tried again; what waits behind it is not."""
    worker = launch("--processes", "1", **SLOWLY)
    first = enqueue_notice()
    until(lambda: Job.objects.get(pk=first.pk).status == Status.RUNNING and len(worker.children) == 2, what="its start")
    waiting = enqueue_notice()

    processes.kill(max(worker.children))

    assert wait_for(waiting).attempts == 1
    again = Job.objects.get(pk=first.pk)
    assert (again.status, again.attempts) == (Status.SCHEDULED, 1)


def test_a_drain_ends_only_when_they_are_done_too(launch: Launch, enqueue: Enqueue) -> None:
    for _ in range(5):
        enqueue("boom", _max_attempts=1)
    worker = launch("--drain", "--processes", "1", wait=False)

    assert worker.ends() == 0

    assert finished(list(Job.objects.filter(job_type="jobqueue.notify")))
    assert set(Job.objects.filter(queue="jobqueue").values_list("status", flat=True)) == {Status.DONE}
    assert Job.objects.filter(queue="jobqueue").count() == 5


def test_an_idle_worker_stays_quiet(launch: Launch) -> None:
    """Looking costs next to nothing."""
    worker = launch("--processes", "1", LEASE_SECONDS=60, POLL_SECONDS=1, MAINTENANCE_SECONDS=1)
    until(lambda: Worker.objects.get().idle_since, what="the worker sleeps")
    before = processes.cpu_seconds(worker.pid)

    holds_for(3, lambda: len(worker.children) == 1)

    assert processes.cpu_seconds(worker.pid) - before < 0.3


# -- the life of its child, by a clock that only the test moves -------------------------------------------------------


class Parts:
    """An own slot with a child that does nothing by itself."""

    def __init__(self) -> None:
        self.killed: list[str] = []
        self.retired: list[Any] = []
        self.sent: list[Any] = []
        self.child = SimpleNamespace(
            key="c9", pid=9, queue={}, notices=0, dead=False, killed_at=None, retiring=False, notify=self._notify
        )
        crew = SimpleNamespace(serving=[self.child])
        launcher = SimpleNamespace(kill=self.killed.append)
        hands = SimpleNamespace(waiting=0, depth=1, put_back_retired=self.retired.append, free=lambda _: (1, 1))
        options: Any = SimpleNamespace(worker_id="w", poll=SECOND, lease=SECOND * 60)
        pool: Any = SimpleNamespace(own=crew, launcher=launcher)
        self.crew = crew
        self.slot = OwnSlot(pool, hands, options)  # type: ignore[arg-type]

    def _notify(self, notice: Any) -> bool:
        self.sent.append(notice)
        self.child.notices += 1
        return True


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_a_child_that_has_just_been_used_stays(parts: Parts) -> None:
    """A job may come and end between two checks."""
    parts.slot.found(1, Deal([("jobqueue", 1)], 1), 1_000)

    parts.slot.check(1_001, stopping=False)

    assert parts.retired == []


def test_a_child_that_was_idle_for_a_minute_retires(parts: Parts) -> None:
    parts.child.queue = {(1, 1): None}
    parts.slot.check(1_000, stopping=False)
    parts.child.queue = {}

    parts.slot.check(1_000 + IDLE_SECONDS, stopping=False)
    assert parts.retired == []
    parts.slot.check(1_001 + IDLE_SECONDS, stopping=False)

    assert parts.retired == [parts.child]


def test_a_heartbeat_is_sent_when_the_last_one_was_heard(parts: Parts) -> None:
    parts.slot.heard = True
    parts.slot.check(1_000, stopping=False)
    parts.slot.check(1_009, stopping=False)
    parts.slot.check(1_011, stopping=False)
    assert len(parts.sent) == 1, "its receivers are still being called"

    parts.child.notices = 0
    parts.slot.check(1_012, stopping=False)
    parts.slot.check(1_013, stopping=False)

    assert [(notice.signal, notice.arguments) for notice in parts.sent] == [
        ("worker_heartbeat", {"worker_id": "w"})
    ] * 2


@pytest.mark.parametrize(
    ("heard", "stopping", "queue"),
    [
        pytest.param(False, False, {}, id="nobody listens"),
        pytest.param(True, True, {}, id="the worker stops"),
        pytest.param(True, False, {(1, 1): None}, id="a job of the package runs"),
    ],
)
def test_no_heartbeat_is_sent_where(parts: Parts, heard: bool, stopping: bool, queue: dict[Any, Any]) -> None:
    parts.slot.heard, parts.child.queue = heard, queue

    parts.slot.check(1_000, stopping=stopping)

    assert parts.sent == []


def test_a_heartbeat_has_a_child_forked_for_it(parts: Parts) -> None:
    parts.slot.heard, parts.crew.serving = True, []
    assert not parts.slot.wants_child

    parts.slot.check(1_000, stopping=False)

    assert parts.slot.wants_child


def test_receivers_that_do_not_end_are_killed_once(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    parts.slot.heard = True
    parts.slot.check(1_000, stopping=False)
    parts.slot.check(1_000 + RECEIVERS_SECONDS, stopping=False)
    assert parts.killed == []

    parts.slot.check(1_001 + RECEIVERS_SECONDS, stopping=False)
    parts.slot.check(1_002 + RECEIVERS_SECONDS, stopping=False)

    assert parts.killed == ["c9"]
    assert caplog.text.count("their child is killed") == 1
    parts.child.dead, parts.crew.serving = True, []
    parts.slot.check(1_003 + RECEIVERS_SECONDS, stopping=False)
    parts.slot.check(1_004 + RECEIVERS_SECONDS, stopping=False)
    assert parts.slot.wants_child, "the next one gets another"
