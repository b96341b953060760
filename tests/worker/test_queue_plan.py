"""`--queues "mail:2,default,*"`: how it is read, and how places are dealt among the queues."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.exceptions import ConfigurationError
from jobqueue.worker.queues import QueuePlan


def test_names_slots_and_the_star_are_read() -> None:
    plan = QueuePlan.parse(" mail:2, default ,*")

    assert (plan.named, plan.reserved, plan.every) == (["mail", "default"], {"mail": 2}, True)
    assert plan.registered() == ["mail", "default", "*"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no queue"),
        (",,", "names no queue"),
        ("a b", "'a b'"),
        ("mail:", "at least 1 slot"),
        ("mail:0", "at least 1 slot"),
        ("mail:-1", "at least 1 slot"),
        ("mail:²", "at least 1 slot"),
        ("mail:x", "at least 1 slot"),
        ("*:2", 'queue "*"'),
        ("mail,mail:2", "named twice"),
        ("x" * 64, "63"),
    ],
)
def test_a_mistake_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        QueuePlan.parse(text)

    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "slots", "fits"),
    [
        ("mail:2", 2, True),
        ("mail:2,default", 2, False),
        ("mail:2,default", 3, True),
        ("mail:2,*", 2, False),
        ("mail:3", 2, False),
        ("a:1,b:1", 2, True),
    ],
)
def test_reserved_slots_leave_some_for_the_others(text: str, slots: int, fits: bool) -> None:
    plan = QueuePlan.parse(text)
    if fits:
        plan.check_slots(slots)
    else:
        with pytest.raises(ConfigurationError, match="reserve"):
            plan.check_slots(slots)


def test_the_star_serves_what_is_learnt() -> None:
    plan = QueuePlan.parse("mail:1,*")
    plan.learnt = {"b", "a", "mail"}

    assert plan.names() == ["mail", "a", "b"]
    assert plan.serves("anything")


def test_without_the_star_nothing_else_is_served() -> None:
    plan = QueuePlan.parse("mail,default")
    plan.learnt = {"other"}

    assert plan.names() == ["mail", "default"]
    assert not plan.serves("other")


def test_only_its_own_queue_fills_a_reserved_place() -> None:
    plan = QueuePlan.parse("mail:2,default")

    deals = plan.deals(free=3, depth=1, held={})

    assert deals[0] == ([("mail", 2)], 2)
    assert deals[1].total == 1
    assert [deal.total for deal in plan.deals(free=2, depth=1, held={"default": 1})] == [2]
    assert plan.deals(free=0, depth=1, held={"default": 1, "mail": 2}) == []


def test_each_queue_comes_first_in_its_turn() -> None:
    plan = QueuePlan.parse("a,b,c")

    first = [plan.deals(free=1, depth=1, held={})[0].takes[0][0] for _ in range(6)]

    assert Counter(first) == {"a": 2, "b": 2, "c": 2}


def test_a_queue_found_short_leaves_its_share_to_the_others() -> None:
    plan = QueuePlan.parse("a,b")

    (deal,) = plan.deals(free=4, depth=1, held={}, skip={"a"})

    assert deal == ([("b", 4)], 4)


@given(
    free=st.integers(0, 40),
    depth=st.integers(1, 50),
    held=st.dictionaries(st.sampled_from(["mail", "slow", "default", "x"]), st.integers(0, 60)),
    skip=st.sets(st.sampled_from(["mail", "slow", "default", "x"])),
)
def test_a_deal_never_exceeds_what_is_free(free: int, depth: int, held: dict[str, int], skip: set[str]) -> None:
    plan = QueuePlan.parse("mail:2,slow:1,default,*")
    plan.learnt = {"x"}

    deals = plan.deals(free=free, depth=depth, held=held, skip=skip)

    assert sum(deal.total for deal in deals) <= free
    for deal in deals:
        assert all(take > 0 for _, take in deal.takes)
        assert not {queue for queue, _ in deal.takes} & skip
