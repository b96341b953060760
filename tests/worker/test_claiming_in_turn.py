"""The two kinds of claims of one worker, on a thread that answers when the test says so."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from psycopg.errors import QueryCanceled

from jobqueue.worker.dispatch import MOST_UNSETTLED
from jobqueue.worker.learning import Learning

from .turns import Parts


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
