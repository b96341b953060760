"""The two kinds of claims of one worker, on a thread that answers when the test says so."""

import time
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError
from psycopg.errors import QueryCanceled

from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.worker.dispatch import BUSY_PAUSE_SECONDS, MOST_UNSETTLED, Claimed, Dispatch
from jobqueue.worker.learning import Learning
from jobqueue.worker.own import OwnSlot
from jobqueue.worker.queues import QueuePlan

SECOND = timedelta(seconds=1)


class Thread:
    """Takes one task at a time, and does none."""

    def __init__(self) -> None:
        self.busy = False
        self.session = SimpleNamespace(run=None, connects=0)
        self.task: Any = None
        self.then: Any = None

    def submit(self, task: Any, then: Any) -> None:
        self.busy, self.task, self.then = True, task, then


class Parts:
    """A dispatch whose own queue and whose other queues are never empty, with room for both."""

    def __init__(self, queues: str = "default") -> None:
        hands: Any = SimpleNamespace(
            free=lambda _: (4, 4),
            depth=1,
            waiting=0,
            starving=True,
            shared_slots=None,
            add=lambda *_: None,
            hand_out=lambda _: None,
        )
        options: Any = SimpleNamespace(worker_id="w", poll=SECOND, lease=SECOND * 60)
        pool: Any = SimpleNamespace(own=SimpleNamespace(serving=[1]))
        thread: Any = Thread()
        held: Any = SimpleNamespace(all=list, add=lambda _: None)
        settler: Any = []
        self.settler, self.hands, self.held = settler, hands, held
        self.plan = QueuePlan.parse(queues)
        self.thread = thread
        self.dispatch = Dispatch(
            thread,
            plan=self.plan,
            hands=hands,
            own=OwnSlot(pool, hands, options),
            held=held,
            settler=settler,
            settings=get_settings(),
            worker_id="w",
            lease=SECOND * 60,
            poll=SECOND,
            mark_idle=lambda _: None,
        )
        policies: Any = SimpleNamespace(get=lambda _: None)
        self.dispatch.policies = policies

    def busy_with(self, *queues: str) -> None:
        """Have it hold a job of each of these queues."""
        jobs = [SimpleNamespace(ended=False, own=False, job=SimpleNamespace(queue=queue)) for queue in queues]
        self.held.all = lambda: jobs

    def claim(self, now: float, *, jobs: int = 4, common_fails: bool = False) -> str:
        """Let the next claim be made, and answer it: with so many jobs, or an error. Returns whose it is."""
        self.dispatch.pump(now)
        return self.answer(now, jobs=jobs, common_fails=common_fails)

    def answer(self, now: float, *, jobs: int = 4, common_fails: bool = False, own_is_empty: bool | None = None) -> str:
        """Answer the claim that was made."""
        assert self.thread.busy, "a claim is made"
        then = self.thread.then
        self.thread.busy = False
        own = isinstance(then, partial)
        if common_fails and not own:
            then(None, DatabaseError("no such column"))
        else:
            held: Any = [
                SimpleNamespace(job=SimpleNamespace(job_type="probe.ok", queue="default")) for _ in range(jobs)
            ]
            then(Claimed(held, set() if jobs else {"default"}, True, now, own_is_empty), None)
        return "own" if own else "common"


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_a_backlog_of_the_packages_own_jobs_leaves_every_second_claim_to_the_others(parts: Parts) -> None:
    """With 20,000 due notices all other slots of a worker stood empty for seconds."""
    assert [parts.claim(1.0) for _ in range(5)] == ["own", "common", "own", "common", "own"]


def test_answered_looks_at_the_own_queue_do_not_hide_that_all_other_claims_fail(parts: Parts) -> None:
    claims = [parts.claim(1.0), parts.claim(1.0)]
    assert (claims, parts.dispatch.claimed_at) == (["own", "common"], 1.0)

    claims = [parts.claim(1.0 + second, common_fails=True) for second in range(1, 9)]

    assert set(claims) == {"own", "common"}
    parts.dispatch.pump(60.0)
    assert parts.dispatch.claimed_at is not None
    assert parts.dispatch.claimed_at < 4.0


def test_a_hint_is_looked_after_at_once_and_before_a_look_of_routine(parts: Parts) -> None:
    """What had found nothing before that was a look that no hint had asked for."""
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]
    later = now + 1.5
    assert parts.dispatch.next_at(later) == later, "both looks of routine are due"

    parts.dispatch.wake(["default"])

    assert [parts.claim(later, jobs=0), parts.claim(later, jobs=0)] == ["common", "own"]


def test_hints_keep_the_own_queue_waiting_no_longer_than_a_second(parts: Parts) -> None:
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]

    looks = []
    for tenth in range(1, 41):
        parts.dispatch.wake(["default"])
        parts.dispatch.pump(now + tenth / 10)
        looks.append(parts.answer(now + tenth / 10, jobs=1))

    assert looks[:10] == ["common"] * 10
    assert "own" in looks[10:25]


def test_a_hint_a_moment_after_one_that_was_for_nothing_waits_for_the_rest_of_it(parts: Parts) -> None:
    """Of a paused queue each hint was a look, a thousand a second. A drain does not end before that look."""
    before = time.monotonic()
    assert [parts.claim(before, jobs=0), parts.claim(before, jobs=0)] == ["own", "common"]
    parts.dispatch.wake(["default"])
    assert parts.claim(before, jobs=0) == "common"
    after = time.monotonic()
    drained = [parts.dispatch.drained]

    for _ in range(2):
        parts.dispatch.wake(["default"])

    assert [*drained, parts.dispatch.drained] == [True, False]
    next_at = parts.dispatch.next_at(after)
    assert next_at is not None
    assert before + BUSY_PAUSE_SECONDS <= next_at <= after + BUSY_PAUSE_SECONDS
    parts.dispatch.pump(before)
    assert not parts.thread.busy
    assert parts.claim(next_at) == "common"


def test_a_hint_during_an_empty_look_is_followed_by_another_a_moment_later(parts: Parts) -> None:
    before = time.monotonic()
    assert parts.claim(before, jobs=0) == "own"
    parts.dispatch.pump(before)
    parts.dispatch.wake(["default"])
    assert parts.claim(before, jobs=0) == "common"

    next_at = parts.dispatch.next_at(before)
    assert next_at is not None
    assert next_at <= time.monotonic() + BUSY_PAUSE_SECONDS
    assert not parts.dispatch.drained


def test_a_look_at_all_queues_that_saw_nothing_in_the_own_one_saves_the_look_there(parts: Parts) -> None:
    now = time.monotonic()
    assert parts.claim(now) == "own"
    parts.dispatch.pump(now)
    assert parts.dispatch.next_at(now) is None, "it is the others' turn, and of the own ones there may be more"

    parts.answer(now, jobs=0, own_is_empty=True)

    next_at = parts.dispatch.next_at(now)
    assert next_at is not None
    assert next_at > now + 0.5
    parts.dispatch.wake([INTERNAL_QUEUE])
    assert parts.claim(now) == "own"


def test_a_hint_of_the_own_queue_during_such_a_look_is_not_forgotten(parts: Parts) -> None:
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]
    parts.dispatch.wake(["default"])
    parts.dispatch.pump(now)
    parts.dispatch.wake([INTERNAL_QUEUE])

    parts.answer(now, jobs=0, own_is_empty=True)

    assert parts.claim(now) == "own"


def test_an_older_look_at_the_own_queue_does_not_overrule_that_jobs_have_ended_since(parts: Parts) -> None:
    """A drain ended over the mail that its last job had enqueued."""
    now = time.monotonic()
    assert parts.claim(now, jobs=0) == "own"
    parts.dispatch.pump(now)
    parts.dispatch.look_again()

    parts.answer(now, jobs=0, own_is_empty=True)

    assert not parts.dispatch.drained
    later = now + BUSY_PAUSE_SECONDS * 2
    looks = [parts.claim(later, jobs=0), parts.claim(later, jobs=0)]
    assert set(looks) == {"own", "common"}
    assert parts.dispatch.drained


def test_a_drain_looks_for_queues_once_nothing_is_left_and_not_with_each_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = Parts("*")
    parts.plan.learnt = {"default"}
    asked: list[str] = []
    monkeypatch.setattr(parts.dispatch.learning, "ask", lambda: asked.append("asked"))
    now = time.monotonic()
    assert parts.claim(now, jobs=0) == "own"
    for _ in range(3):
        parts.dispatch.look_again()
        parts.claim(now)
    before = list(asked)

    parts.dispatch.look_again()
    parts.claim(now + 1, jobs=0)
    ended_early = parts.dispatch.drained
    parts.claim(now + 2, jobs=0)
    parts.claim(now + 2, jobs=0)

    assert (before, asked, ended_early, parts.dispatch.drained) == ([], ["asked"], False, True)


def test_a_look_that_sees_jobs_in_the_own_queue_has_them_claimed(parts: Parts) -> None:
    """Their hint may have been lost, and the look of routine there is the later one."""
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]
    parts.dispatch.wake(["default"])
    parts.dispatch.pump(now)

    parts.answer(now, jobs=0, own_is_empty=False)

    assert parts.claim(now) == "own"


def test_a_hint_during_a_claim_that_falls_short_of_its_queue_is_looked_after() -> None:
    """Another queue had enough, so the next claim came at once, without the one that was short, and took the hint."""
    parts = Parts("a,b")
    now = time.monotonic()
    assert parts.claim(now, jobs=0) == "own"
    parts.dispatch.pump(now)
    parts.dispatch.wake(["a"])
    held: Any = [SimpleNamespace(job=SimpleNamespace(job_type="probe.ok", queue="b"))]
    parts.thread.busy = False
    parts.thread.then(Claimed(held, {"a"}, True, now), None)

    parts.dispatch.pump(now)

    assert parts.thread.busy
    asked = {queue for deal in parts.thread.task.args[1] for queue, _ in deal.takes}
    assert asked == {"a", "b"}


def test_a_hint_that_takes_two_looks_for_nothing_is_followed_by_the_pause() -> None:
    """Reserved places are asked for first; of a busy common queue each hint was a look."""
    parts = Parts("a,b")
    now = time.monotonic()
    assert parts.claim(now, jobs=0) == "own"
    parts.dispatch.wake(["b"])
    parts.dispatch.pump(now)
    for short in ({"a"}, {"a", "b"}):
        parts.thread.busy = False
        parts.thread.then(Claimed([], short, True, now), None)
        parts.dispatch.pump(now)

    parts.dispatch.wake(["b"])

    next_at = parts.dispatch.next_at(now)
    assert next_at is not None
    assert next_at > now


def test_hints_of_a_queue_without_room_are_no_claims_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its reserved place is taken and the free one is another's, which is empty: each hint asked that one again."""
    parts = Parts("a:1,b:1,*")
    now = time.monotonic()
    parts.busy_with("a", "c")
    parts.hands.free = lambda _: (1, 3)
    assert parts.claim(now, jobs=0) == "own"
    monkeypatch.setattr(parts.dispatch.learning, "look", lambda: None)
    for _ in range(2):
        parts.dispatch.pump(now)
        parts.dispatch.wake(["a"])
        parts.thread.busy = False
        parts.thread.then(Claimed([], {"b"}, True, now), None)

    next_at = parts.dispatch.next_at(now)

    assert next_at is not None
    assert next_at > now


def test_room_for_a_queue_that_was_not_asked_is_used_at_once() -> None:
    """Its backlog waited for the poll, a job a second."""
    parts = Parts("a:1,b:1,c")
    now = time.monotonic()
    parts.busy_with("a", "c")
    parts.hands.free = lambda _: (1, 3)
    assert parts.claim(now, jobs=0) == "own"
    parts.dispatch.pump(now)
    parts.thread.busy = False
    parts.thread.then(Claimed([], {"b"}, True, now), None)
    parts.dispatch.pump(now)
    resting = not parts.thread.busy

    parts.busy_with("c")
    parts.hands.free = lambda _: (2, 3)
    parts.dispatch.pump(now)

    assert resting
    assert parts.thread.busy
    assert "a" in {queue for deal in parts.thread.task.args[1] for queue, _ in deal.takes}


def test_a_look_for_queues_that_failed_is_made_again(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain ended over the job in a new queue that its last one had enqueued."""
    asked: list[str] = []
    monkeypatch.setattr(parts.dispatch.learning, "ask", lambda: asked.append("asked"))
    now = time.monotonic()
    assert parts.claim(now) == "own"

    assert parts.claim(now, common_fails=True) == "common"

    assert asked == ["asked"]


def test_a_full_worker_passes_hints_on_to_maintenance(parts: Parts) -> None:
    told: list[str] = []
    parts.dispatch.after_hints = lambda: told.append("told")
    parts.hands.free = lambda _: (0, 4)

    parts.dispatch.wake(["default"])
    parts.dispatch.pump(time.monotonic())

    assert told == ["told"]


def test_a_queue_that_is_named_during_a_look_for_queues_is_not_forgotten() -> None:
    parts = Parts("*")
    now = time.monotonic()
    assert parts.claim(now, jobs=0) == "own"
    parts.dispatch.pump(now)
    parts.dispatch.wake(["mail"])
    parts.plan.learnt = set()  # what the look brings, which began before that

    parts.answer(now, jobs=0)
    parts.dispatch.pump(now + BUSY_PAUSE_SECONDS * 2)

    assert "mail" in parts.plan.names()
    assert [queue for deal in parts.thread.task.args[1] for queue, _ in deal.takes] == ["mail"]


def test_maintenance_is_told_once_nothing_is_due_after_hints_and_only_then(parts: Parts) -> None:
    """One that is scheduled for a moment from now is hinted, too: but nobody looks for it while others wait."""
    told: list[str] = []
    parts.dispatch.after_hints = lambda: told.append("told")
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]

    parts.dispatch.wake(["default"])
    assert parts.claim(now, jobs=1) == "common"
    before = list(told)
    later = time.monotonic() + BUSY_PAUSE_SECONDS
    assert parts.claim(later, jobs=0) == "common"
    assert (before, told) == ([], ["told"])

    assert parts.claim(later + 1.5, jobs=0)
    assert told == ["told"]


def test_a_hint_of_a_queue_that_others_serve_is_passed_on_at_once(parts: Parts) -> None:
    """Whoever serves it may do without maintenance."""
    told: list[str] = []
    parts.dispatch.after_hints = lambda: told.append("told")

    parts.dispatch.wake(["mail"])

    assert told == ["told"]


def test_a_settle_that_cannot_keep_up_holds_both_claims_back(parts: Parts) -> None:
    """And nobody looks for room again before its answer comes."""
    parts.settler += [None] * (MOST_UNSETTLED + 1)

    parts.dispatch.pump(1.0)

    assert not parts.thread.busy
    assert parts.dispatch.next_at(1.0) is None
    parts.settler.clear()
    assert parts.claim(1.0) == "own"


@pytest.mark.parametrize(
    ("queue", "looks_soon"),
    [
        pytest.param("default", True, id="one that it asks for"),
        pytest.param("gone", False, id="one that it does not ask for any more"),
    ],
)
def test_a_sweep_that_is_due_keeps_only_those_awake_who_make_it(parts: Parts, queue: str, looks_soon: bool) -> None:
    """Else it asks for all but that queue, 200 times a second, for as long as that sweep is due."""
    claims: Any = SimpleNamespace(
        sweep_at=lambda queues: 0.0 if queue in queues else None, may_be_behind=lambda queues: queue in queues
    )
    parts.dispatch.claims = claims
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]

    next_at = parts.dispatch.next_at(now)

    assert next_at is not None
    assert (next_at < now + 0.5) is looks_soon


def test_a_sweep_of_the_own_queue_waits_for_no_poll_and_wakes_no_other_claim(parts: Parts) -> None:
    claims: Any = SimpleNamespace(
        sweep_at=lambda queues: 0.0 if "jobqueue" in queues else None, may_be_behind=lambda queues: "jobqueue" in queues
    )
    parts.dispatch.claims = claims
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]

    assert [parts.claim(time.monotonic() + 0.1, jobs=0) for _ in range(3)] == ["own"] * 3


def test_known_queues_are_claimed_from_where_the_look_for_others_takes_too_long() -> None:
    """Under a transaction of minutes it may: a worker of all queues claimed nothing at all until that had ended."""
    parts = Parts("default,*")
    asked: list[str] = []

    def run(*_: Any) -> Any:
        raise OperationalError from QueryCanceled()

    def claim(takes: list[tuple[str, int]], **_: Any) -> None:
        asked.extend(queue for queue, _ in takes)

    claims: Any = SimpleNamespace(
        claim=claim, rest_after=lambda _: 100.0, sweep_at=lambda _: None, may_be_behind=lambda _: False
    )
    parts.dispatch.claims = claims
    parts.dispatch.learning = Learning(run, parts.plan, claims, poll_seconds=1.0)
    assert parts.claim(1.0, jobs=0) == "own"

    parts.dispatch.pump(1.0)
    parts.thread.task()

    assert asked == ["default"]
