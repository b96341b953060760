"""What the rules of the state machine share: one step is done by the manager and by the model, and all must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar

from django.db import OperationalError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from jobqueue.conf import get_settings
from jobqueue.exceptions import InvalidTransition, LeaseLost
from jobqueue.managers import CostLine, Fence
from jobqueue.managers.settling import LOCK_NOT_AVAILABLE, sqlstate
from jobqueue.outcomes import Outcome

from . import comparing
from .arena import Arena, Reading, read
from .jobs import RUNNING, Locked
from .model import Model

LEASE = timedelta(seconds=1_000)
LATER = timedelta(seconds=1_000)
MOST_JOBS = 12
NOBODY = 10**15  # no job's id

sides = st.integers(0, 1)
workers = st.sampled_from(["w1", "w2"])
few = st.integers(1, 3)
#: Which of the fences that were given out, those first that hold; then what is wrong with it.
fences = st.tuples(st.integers(0, 5), st.sampled_from(["", "", "", "", "", "older", "newer", "worker"]))
several_fences = st.lists(fences, min_size=1, max_size=3)
#: Which jobs, those first that the verb is for.
targets = st.lists(st.integers(0, 5), min_size=1, max_size=3)
#: Seconds that pass before a step: less than a lease and more than stuck, or more than a lease and a delay.
passing = st.sampled_from([0, 900, 1_800, 1_800])
reasons = st.sampled_from(["", "why"])
people = st.booleans()
specs = st.fixed_dictionaries(
    {
        "job_type": st.sampled_from(["probe.ok", "probe.echo"]),
        "queue": st.sampled_from(["one", "two"]),
        "priority": st.sampled_from([50, 100]),
        "dedupe_key": st.sampled_from([None, "k", "l"]),
        "max_attempts": st.integers(1, 3),
        "delay": st.sampled_from([None, None, None, 0, 1_000]),
    }
)
#: How an attempt ends: the settle's kind, and what Ending(outcome, step) says.
ENDS: dict[str, dict[str, Any]] = {
    "done": {},
    "result not storable": {},
    "failed": {"outcome": Outcome.FAILED, "delay": LATER, "error_class": "Boom", "error_text": "boom"},
    "error not storable": {"outcome": Outcome.FAILED, "error_class": "Boom", "error_text": "a \x00 byte"},
    "retry at once": {"outcome": Outcome.FAILED},
    "deadline": {"outcome": Outcome.DEADLINE, "limit_hit": True, "error_class": "Late", "error_text": "late"},
    "memory": {"outcome": Outcome.MEMORY, "step": "dead", "limit_hit": True, "error_text": "too much"},
    "input limit": {"outcome": Outcome.INPUT_LIMIT, "step": "dead", "limit_hit": True, "error_text": "too long"},
    "unknown type": {"outcome": Outcome.UNKNOWN_TYPE, "step": "dead"},
    "crashed": {"outcome": Outcome.CRASHED, "error_class": "Crash", "error_text": "signal 11"},
    "interrupted": {"outcome": Outcome.INTERRUPTED, "step": "interrupt", "error_class": "Cut", "error_text": "cut off"},
    "cancelled": {"outcome": Outcome.CANCELLED, "step": "cancel"},
    "discarded": {"outcome": Outcome.DISCARDED, "step": "cancel", "error_text": "not needed"},
    "put back": {},
    "snoozed": {"delay": LATER},
    "type unknown here": {"delay": LATER, "unknown": True},
}
RELEASES = ("put back", "snoozed", "type unknown here")
costs = st.sampled_from([(), (), (CostLine("model", "USD", Decimal("0.25")),)])
ends = st.lists(st.tuples(fences, st.sampled_from(sorted(ENDS)), costs), min_size=1, max_size=3)


RAISED = ("locked", LeaseLost.__name__, InvalidTransition.__name__)


def answer_of(call: Callable[[], Any]) -> Any:
    """Return what a verb answers, or the name of what it raises."""
    try:
        return call()
    except (LeaseLost, InvalidTransition) as error:
        return type(error).__name__
    except Locked:
        return "locked"
    except OperationalError as error:
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        return "locked"


class Steps(RuleBasedStateMachine):
    """What the rules share: one step is done by both, then everything is compared."""

    arena: ClassVar[Arena]
    changed: ClassVar[Counter[tuple[str, int | None, int | None]]]  # (verb, status before, status after)
    taken: ClassVar[Counter[str]]  # how often each verb was called

    def __init__(self) -> None:
        super().__init__()
        self.arena.clean()
        settings = get_settings()
        self.model = Model(budget=settings.INTERRUPTION_BUDGET, notices=bool(settings.NOTIFIERS))
        self.fences: list[Fence] = []
        self.last: Reading = read()

    def teardown(self) -> None:
        self.arena.clean()

    def step(self, verb: str, side: int, real: Callable[[], Any], modelled: Callable[[Any], Any]) -> Any:
        """Do one verb in both worlds. Fail where answers or tables differ, or a job changed that should not have."""
        before = self._read(side) if side in self.model.open else self.last
        self.model.before = before.at
        saved = deepcopy(self.model.open.get(side))
        answer = answer_of(lambda: self.arena.sides[side].call(real))
        seen = self._read(side) if side in self.model.open else None
        self.last = read()
        self.model.after = self.last.at
        expected = answer_of(lambda: modelled(answer))
        if saved is not None and expected in RAISED:
            self.model.open[side] = saved  # as the savepoint does
        assert answer == expected, f"{verb} answered {answer}, expected {expected}"
        if seen is not None:
            comparing.compare(self.model, side, seen)
        comparing.compare(self.model, None, self.last)
        self._note(verb, before, seen or self.last)
        return answer

    def _note(self, verb: str, before: Reading, after: Reading) -> None:
        comparing.hold_epochs(verb, before, after)
        self.taken[verb] += 1
        for _, old, new in comparing.changes(before, after):
            self.changed[verb, old, new] += 1

    def _read(self, side: int) -> Reading:
        reading = self.arena.sides[side].call(read)
        assert isinstance(reading, Reading)
        return reading

    def between(self) -> None:
        """Compare after a step that is no verb: only what is committed can have changed, as the model says."""
        self.last = read()
        comparing.compare(self.model, None, self.last)

    def grow_older(self, seconds: int) -> None:
        """Let time pass: the rows grow older, the clock stays. Not while a transaction holds some of them."""
        if seconds and not self.model.open:
            self.arena.pass_time(seconds)
            self.model.pass_time(seconds)
            self.between()

    def fence(self, pick: tuple[int, str]) -> Fence:
        """Return one of the fences that were given out, those first that hold, perhaps with something wrong in it."""
        index, wrong = pick
        holding = [job.id for job in self.model.view(None).values() if job.status == RUNNING]
        newest = list({fence.id: fence for fence in self.fences if fence.id in holding}.values())
        known = [*newest, *self.fences[:-4:-1]]
        fence = known[index % len(known)]
        if wrong == "worker":
            return fence._replace(worker_id="w2" if fence.worker_id == "w1" else "w1")
        return fence._replace(lease_epoch=fence.lease_epoch + {"older": -1, "newer": 1}.get(wrong, 0))

    def several(self, picks: Sequence[tuple[int, str]]) -> list[Fence]:
        """Return fences of different jobs."""
        return list({fence.id: fence for fence in map(self.fence, picks)}.values())

    def ids(self, side: int, picks: Sequence[int], statuses: Sequence[int]) -> list[int]:
        """Return ids of jobs that a side sees, those in the statuses first; the last choice is a job that is gone."""
        jobs = self.model.view(side).values()
        fit = [job.id for job in jobs if job.status in statuses]
        rest = [job.id for job in jobs if job.status not in statuses]
        known = [*fit, *rest[:2], NOBODY]
        return [known[pick % len(known)] for pick in picks]
