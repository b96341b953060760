"""What people ask of this worker (models.Order): read with the heartbeat, obeyed in the main loop, answered in the row.

The heartbeat's thread reads the orders when a hint of one comes, each second where no hints come, and with each beat.
It hands them to the main loop, which owns all state, and writes what that answers. An order is carried out once,
however often it is read. One about a job names its attempt: a child that has gone on to another job is left alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from jobqueue.managers.ordering import Answer, Asked, answer_orders, read_orders
from jobqueue.managers.rows import Run
from jobqueue.models import Order

from .endings import KILL
from .holding import Held
from .pool import Child
from .stacks import Stacks

if TYPE_CHECKING:
    from .supervisor import Supervisor

logger = logging.getLogger("jobqueue.worker")

WORDS_CHARACTERS: Final = 100


class Mailbox:
    """Orders read and answers to be written, between the heartbeat's thread and the main loop."""

    def __init__(self, worker_id: str, deliver: Callable[[list[Asked]], None]) -> None:
        self._worker_id, self._deliver = worker_id, deliver
        self._lock = threading.Lock()
        self._answers: dict[int, Answer] = {}
        self._known: set[int] = set()

    def put(self, answer: Answer) -> None:
        """Have an answer written with the next look."""
        with self._lock:
            self._answers[answer.id] = answer

    def read(self, run: Run) -> None:
        """Read what is open, and deliver what is new. On the heartbeat's thread."""
        orders = read_orders(run, worker_id=self._worker_id)
        news = [order for order in orders if order.id not in self._known]
        self._known = {order.id for order in orders}
        with self._lock:  # one that is no longer open was answered, by a statement whose answer was lost, or is gone
            self._answers = {order_id: one for order_id, one in self._answers.items() if order_id in self._known}
        if news:
            self._deliver(news)

    def write(self, run: Run) -> None:
        """Write what has been answered. On the heartbeat's thread; costs nothing where nothing was."""
        if not self._answers:
            return
        with self._lock:
            answers = list(self._answers.values())
        written = answer_orders(run, worker_id=self._worker_id, answers=answers)
        with self._lock:
            for order_id in written:
                self._answers.pop(order_id, None)


class Orders:
    """Carries orders out, in the main loop."""

    def __init__(self, worker: Supervisor) -> None:
        self._worker = worker
        self.mailbox = Mailbox(worker.options.worker_id, lambda news: worker.inbox.put(lambda: self.obey(news)))
        self.stacks = Stacks(worker, self._answer)

    def obey(self, orders: Iterable[Asked]) -> None:
        """Carry orders out."""
        verbs = {"stack": self._show_stack, "kill": self._kill, "drain": self._drain, "stop": self._stop}
        for order in orders:
            logger.info(
                "order %.20s worker=%s job_id=%s asked_by=%.100s",
                *(order.kind, self._worker.options.worker_id, order.job_id, order.asked_by),
            )
            verbs.get(order.kind, self._refuse)(order)

    def _answer(self, order_id: int, obeyed: bool, text: str = "") -> None:
        self.mailbox.put(Answer(order_id, obeyed, text))
        self._worker.heartbeat.look_soon()

    def _refuse(self, order: Asked, why: Order.Refusal = Order.Refusal.UNKNOWN) -> None:
        self._answer(order.id, False, why.value)

    def _drain(self, order: Asked) -> None:
        if not self._worker.shutdown.asked:  # asked twice it would cut off
            self._worker.shutdown.ask()
        self._answer(order.id, True)

    def _stop(self, order: Asked) -> None:
        self._worker.shutdown.ask()
        self._worker.shutdown.ask()
        self._answer(order.id, True)

    def _show_stack(self, order: Asked) -> None:
        found = self._running(order)
        if found is not None:
            self.stacks.ask(order.id, *found)

    def _kill(self, order: Asked) -> None:
        """Kill the child, once it is certain that it is in this very job still: it has nothing to go on to."""
        found = self._running(order)
        if found is None:
            return
        held, child = found
        self._worker.hands.put_back_retired(child)
        self._worker.reports.read(child, time.monotonic())
        if held.ended or held not in child.running():
            self._refuse(order, Order.Refusal.ENDED)
            return
        held.asked, held.killed_by = held.asked or KILL, order.asked_by[:WORDS_CHARACTERS]
        self._worker.stops.kill(child)
        self._answer(order.id, True)

    def _running(self, order: Asked) -> tuple[Held, Child] | None:
        """Return the run that an order is about and its child; None, answered, where it does not run here any more."""
        held = self._worker.held.get(order.job_id or 0, order.lease_epoch or 0)
        child = None if held is None else self._worker.pool.children.get(held.child or "")
        if held is not None and child is not None:
            self._worker.reports.read(child, time.monotonic())
        if held is None or held.ended or held.lost:
            self._refuse(order, Order.Refusal.ENDED)
        elif child is None or held.started is None:
            self._refuse(order, Order.Refusal.NOT_BEGUN)
        else:
            return held, child
        return None
