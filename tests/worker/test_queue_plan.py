"""`--queues "mail:2,default,*"`: how it is read, and how places are dealt among the queues."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.exceptions import ConfigurationError
from jobqueue.worker.queues import QueuePlan
from jobqueue.worker.reserving import Reserving


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


def test_where_slots_share_a_child_nothing_is_claimed_ahead_into_reserved_ones() -> None:
    """C121: ten places a slot, but others than mail hold three of four slots at most."""
    plan = QueuePlan.parse("mail:1,default")

    first = plan.deals(free=40, depth=10, held={}, slots=4)
    full = plan.deals(free=37, depth=10, held={"default": 3}, slots=4)

    assert [deal.total for deal in first] == [10, 3]
    assert [takes for takes, _ in full] == [[("mail", 10)]]


class Given:
    """Children of one slot, and what each was given: given(a=["mail"], b=[]) is two, the second empty."""

    def __init__(self, **queues: list[str]) -> None:
        self.children: dict[str, Any] = {
            key: SimpleNamespace(
                dead=False,
                retiring=False,
                queue={number: SimpleNamespace(job=SimpleNamespace(queue=name)) for number, name in enumerate(names)},
            )
            for key, names in queues.items()
        }

    def open_to(self, queue: str, *, reserved: dict[str, int], full: str = "") -> str:
        """Return the keys of the children that a job of the queue may be given to."""
        rooms = {key: 0 if key in full else 10 for key in self.children}
        return "".join(Reserving(reserved, self.children).open_to(queue, rooms))


@pytest.mark.parametrize(
    ("given", "queue", "reserved", "children"),
    [
        (Given(a=[], b=[]), "default", {"mail": 1}, "ab"),
        (Given(a=["default"], b=[]), "default", {"mail": 1}, "a"),
        (Given(a=["default"], b=[]), "mail", {"mail": 1}, "b"),
        (Given(a=["mail"], b=[]), "default", {"mail": 1}, "ab"),
        (Given(a=["mail"], b=["default"]), "default", {"mail": 1}, "b"),
        (Given(a=["mail"], b=["mail"], c=["default"]), "default", {"mail": 1}, "abc"),
        (Given(a=["default"], b=["default"], c=[], d=[]), "default", {"mail": 1, "slow": 1}, "ab"),
        (Given(a=["default"], b=[], c=[]), "mail", {"mail": 1, "slow": 1}, "bc"),
        (Given(a=["mail"], b=["default"], c=[]), "mail", {"mail": 1, "slow": 1}, "a"),
    ],
)
def test_a_child_is_kept_for_each_slot_that_is_reserved(
    given: Given, queue: str, reserved: dict[str, int], children: str
) -> None:
    """C121: however much is claimed ahead, long jobs cannot run in every slot."""
    assert given.open_to(queue, reserved=reserved) == children


def test_a_reserved_queue_takes_part_in_the_common_slots_when_its_own_are_full() -> None:
    given = Given(a=["mail"], b=[], c=["default"])

    assert given.open_to("mail", reserved={"mail": 1}, full="a") == "bc"


@given(
    reserved=st.dictionaries(st.sampled_from(["mail", "slow"]), st.integers(1, 2), min_size=1),
    jobs=st.lists(st.sampled_from(["mail", "slow", "default", "x"]), max_size=30),
)
def test_whatever_is_handed_out_leaves_each_reserved_slot_to_its_queue(
    reserved: dict[str, int], jobs: list[str]
) -> None:
    children = Given(a=[], b=[], c=[], d=[], e=[]).children
    reserving, contents = Reserving(reserved, children), {key: set[str]() for key in children}
    for queue in jobs:
        for key in reserving.open_to(queue, dict.fromkeys(children, 10))[:1]:
            reserving.given(queue, key)
            contents[key].add(queue)

    empty = sum(not held for held in contents.values())
    lacking = [count - sum(held == {name} for held in contents.values()) for name, count in reserved.items()]
    assert sum(max(0, each) for each in lacking) <= empty
