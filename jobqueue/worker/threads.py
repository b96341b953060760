"""Threads that each own one database connection and answer the supervisor's main loop through one inbox."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError

from jobqueue.logs import Quietly
from jobqueue.managers.sessions import Session
from jobqueue.managers.settling import is_timeout, sqlstate

logger = logging.getLogger("jobqueue.worker")

Event = Callable[[], None]
"""Something for the main loop to do: threads never change the supervisor's state themselves."""

Answer = Callable[[Any, "Exception | None"], None]
"""Called in the main loop with a task's result, or with its error."""


class Inbox:
    """What other threads want the main loop to do, and the pipe that wakes it."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def put(self, event: Event) -> None:
        """Have the main loop do something."""
        self._events.put(event)
        self.wake()

    def wake(self) -> None:
        """Have the main loop look around. Safe in a signal handler."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_fd, b"x")

    def run_all(self) -> None:
        """Do everything that has come in."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.read_fd, 65536)
        with contextlib.suppress(queue.Empty):
            while True:
                self._events.get_nowait()()


class LineBudget:
    """Allows so many lines a second about jobs, and tells how many were left out."""

    def __init__(self, lines: int) -> None:
        self._lines, self._left, self._second = lines, lines, 0

    def __call__(self) -> bool:
        """Tell whether one more line may be written."""
        second = int(time.time())  # as the lines are stamped: any other second would let 90 into one of theirs
        if second != self._second:
            if self._left < 0:
                logger.info("lines about jobs left out: %s", -self._left)
            self._second, self._left = second, self._lines
        self._left -= 1
        return self._left >= 0


def is_away(error: BaseException) -> bool:
    """Tell whether an error means that the database is away, not ready or too slow, so that waiting is the cure."""
    if isinstance(error, InterfaceError):
        return True
    code = sqlstate(error) or ""
    return (
        isinstance(error, OperationalError)
        or code.startswith(("08", "53", "57"))
        or code in ("25006", "40001", "40P01")
    )


class DatabaseThread(threading.Thread):
    """Does one database task at a time, for the main loop, on a connection of its own.

    A task that fails because the database is away is tried again, after a pause, until `keep_trying` says no; then
    the error goes to the callback. Nothing else is retried here: after a time-out others of the caller's may go first.
    """

    def __init__(self, name: str, session: Session, inbox: Inbox) -> None:
        super().__init__(name=f"jobqueue-{name}", daemon=True)
        self.session = session
        self.busy = False
        self._inbox = inbox
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Answer, Callable[[], bool]] | None] = (
            queue.SimpleQueue()
        )
        self._quietly = Quietly(logger)

    def submit(
        self,
        task: Callable[[], Any],
        then: Answer,
        *,
        keep_trying: Callable[[], bool] = lambda: False,
    ) -> None:
        """Do a task; `then(result, error)` is called in the main loop, when `busy` is False again."""
        self.busy = True
        self._tasks.put((task, then, keep_trying))

    def run(self) -> None:
        """Serve until end()."""
        while (item := self._tasks.get()) is not None:
            task, then, keep_trying = item
            result, error = self._try(task, keep_trying)
            self._inbox.put(partial(self._answer, then, result, error))
        self.session.close()

    def end(self) -> None:
        """Have the thread end after what it does now."""
        self._tasks.put(None)

    def _answer(self, then: Answer, result: Any, error: Exception | None) -> None:
        self.busy = False
        then(result, error)

    def _try(self, task: Callable[[], Any], keep_trying: Callable[[], bool]) -> tuple[Any, Exception | None]:
        while True:
            try:
                return task(), None
            except DatabaseError as error:
                if not is_away(error):
                    return None, error
                text, timed_out = str(error).strip().split("\n")[0], is_timeout(error)
                what = "statement timed out" if timed_out else "database away"
                self._quietly.warning("%s role=%s error=%s", what, self.session.role, text)
                self.session.pause()
                if timed_out or not keep_trying():
                    return None, error
