"""What a hint does to the two kinds of claims of one worker."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.worker.dispatch import BUSY_PAUSE_SECONDS, Claimed

from .turns import Parts


@pytest.fixture
def parts() -> Parts:
    return Parts()


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
    ended_early = parts.dispatch.found_nothing
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


def test_a_worker_that_claims_no_more_passes_hints_on_to_maintenance(parts: Parts) -> None:
    told: list[str] = []
    parts.dispatch.after_hints = lambda: told.append("told")
    parts.dispatch.stopped = True

    parts.dispatch.wake(["default"])

    assert told == ["told"]


def test_a_hint_during_a_claim_that_brings_jobs_is_looked_after_at_once(parts: Parts) -> None:
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]
    parts.dispatch.wake(["default"])
    parts.dispatch.pump(now)
    parts.dispatch.wake(["default"])
    held: Any = [SimpleNamespace(job=SimpleNamespace(job_type="probe.ok", queue="default"))]
    parts.thread.busy = False

    parts.thread.then(Claimed(held, {"default"}, True, now), None)

    assert parts.dispatch.next_at(now) == now


def test_a_look_after_one_that_brought_jobs_holds_back_no_hint(parts: Parts) -> None:
    """No hint has asked for it: each job of a trickle is followed by such a look."""
    now = time.monotonic()
    assert [parts.claim(now, jobs=0), parts.claim(now, jobs=0)] == ["own", "common"]
    parts.dispatch.wake(["default"])
    assert parts.claim(now, jobs=1) == "common"
    later = time.monotonic() + BUSY_PAUSE_SECONDS
    assert parts.claim(later, jobs=0) == "common"

    parts.dispatch.wake(["default"])

    assert parts.dispatch.next_at(later) == later


@pytest.mark.parametrize(("queues", "waits_longer"), [("*", True), ("default", False)])
def test_the_own_queue_is_looked_at_after_the_look_that_may_save_it(queues: str, waits_longer: bool) -> None:
    parts = Parts(queues)
    parts.dispatch.hears = lambda: True
    now = time.monotonic()
    for _ in range(4):  # until it is marked idle and has looked once more
        parts.dispatch.pump(now)
        if parts.thread.busy:
            parts.answer(now, jobs=0)

    assert parts.dispatch.sleeping
    parts.own._hinted = False

    parts.own.is_empty(now)

    next_at = parts.own.next_at(now)
    assert next_at is not None
    assert (next_at > now + 1) is waits_longer


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
