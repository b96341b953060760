"""Ask a child where its handler is, and read what it has written: first in Python, then without the interpreter.

A child that has gone on to another job is never taken for the one that was asked about: before an answer is given the
child's reports are read, and a job that has ended by then is answered for as ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobqueue.children.protocol import DUMP_SIGNAL, STACK_SIGNAL
from jobqueue.children.stacks import cut_out
from jobqueue.models import Order

from .holding import Held
from .pool import Child

if TYPE_CHECKING:
    from .supervisor import Supervisor

READ_BYTES: Final = 128 * 1024
LOOK_SECONDS: Final = 0.05
PYTHON_SECONDS: Final = 0.5  # for an answer from Python; then the interpreter is passed over
SHARED_SECONDS: Final = 1.5  # the same of several slots, where that is not to be done without need
SILENT_SECONDS: Final = 3.0


@dataclass(slots=True)
class Question:
    """One child that is asked about one of its jobs, by one order or more."""

    child: Child
    held: Held
    orders: list[int]
    asked_at: float | None = None  # monotonic; None while the child is still asked something else
    dumped: bool = False
    size: int = field(default=0)


class Stacks:
    """The questions that are open, one at a time a child."""

    def __init__(self, worker: Supervisor, answer: Callable[[int, bool, str], None]) -> None:
        self._worker, self._answer = worker, answer
        self._open: list[Question] = []

    def ask(self, order: int, held: Held, child: Child) -> None:
        """Take an order; the answer follows. Whoever asks the same meanwhile gets the same answer."""
        for one in self._open:
            if one.held is held:
                one.orders.append(order)
                return
        self._open.append(Question(child, held, [order]))

    def next_at(self, now: float) -> float | None:
        """Return when check() should be called at the latest."""
        return now + LOOK_SECONDS if self._open else None

    def check(self, now: float) -> None:
        """Begin, look at and end questions."""
        asked = {one.child.key for one in self._open if one.asked_at is not None}
        for one in list(self._open):
            if one.asked_at is None and one.child.key not in asked:
                asked.add(one.child.key)
                self._begin(one, now)
            if one.asked_at is not None:
                self._look(one, now, one.asked_at)

    def _begin(self, one: Question, now: float) -> None:
        one.asked_at = now
        if not one.child.dead:
            os.ftruncate(one.child.channels.memory.fileno(), 0)
            one.child.tell("stack", one.held.fence, 0)
            self._worker.launcher.signal(one.child.key, STACK_SIGNAL)

    def _look(self, one: Question, now: float, asked_at: float) -> None:
        if one.child.dead or one.held.ended:
            self._end(one, None)
            return
        data = os.pread(one.child.channels.memory.fileno(), READ_BYTES, 0)
        text = data.decode("utf-8", "replace")
        stack = cut_out(text, one.held.fence)
        if stack is None and one.dumped and data and len(data) == one.size:  # faulthandler has written all it will
            stack = text
        one.size = len(data)
        if stack is not None:
            self._worker.reports.read(one.child, now)
            self._end(one, stack)
        elif now - asked_at > SILENT_SECONDS:
            self._end(one, None, Order.Refusal.SILENT)
        elif not one.dumped and now - asked_at > (PYTHON_SECONDS if one.child.slots == 1 else SHARED_SECONDS):
            one.dumped = True
            self._worker.launcher.signal(one.child.key, DUMP_SIGNAL)

    def _end(self, one: Question, stack: str | None, why: Order.Refusal = Order.Refusal.ENDED) -> None:
        self._open.remove(one)
        if not one.child.dead:
            os.ftruncate(one.child.channels.memory.fileno(), 0)
        runs = stack is not None and not one.held.ended and one.held in one.child.running()
        for order in one.orders:
            self._answer(order, runs, stack if runs and stack is not None else why.value)
