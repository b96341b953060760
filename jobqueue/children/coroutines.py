"""Run handlers that are coroutines: alone in their process, or side by side on one event loop that slots share."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine, Hashable
from concurrent.futures import Future
from typing import Any

from asgiref.sync import sync_to_async

from .connections import any_opened, drop_dead_connections, tidy_connections

Outcome = tuple[Any, BaseException | None]


def run_alone(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on an event loop of its own, in this thread."""
    return asyncio.run(_tidily(coroutine))


async def _tidily(coroutine: Coroutine[Any, Any, Any]) -> Any:
    # Django's synchronous code runs in a thread of asgiref's, which has connections of its own.
    if any_opened():
        await sync_to_async(drop_dead_connections)()
    try:
        return await coroutine
    finally:
        if any_opened():
            await sync_to_async(tidy_connections)()


class SharedLoop:
    """One event loop in a thread of its own, started at its first use; each slot waits for its own coroutine."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the signal that stops may come again while its handler is in cancel()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[Hashable, asyncio.Task[Outcome]] = {}
        self._keys: set[Hashable] = set()

    def run(self, key: Hashable, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its very end, and return or raise what it does."""
        answer: Future[Outcome] = Future()
        context = contextvars.copy_context()  # the job's id in the log
        with self._lock:
            loop = self._started()
            loop.call_soon_threadsafe(lambda: self._start(key, coroutine, answer, context))
            self._keys.add(key)
        try:
            value, error = answer.result()
        finally:
            with self._lock:
                self._keys.discard(key)
        if error is not None:
            raise error
        return value

    def cancel(self, key: Hashable) -> bool:
        """Cancel a coroutine, from another thread. Returns False when none of this key runs here."""
        with self._lock:
            if key not in self._keys or self._loop is None:
                return False
            self._loop.call_soon_threadsafe(self._cancel, key)
        return True

    def coroutine(self, key: Hashable) -> Any:
        """Return the coroutine of a key, None when none of it runs here. Takes no lock: signals' handlers ask, too."""
        task = self._tasks.get(key)
        return None if task is None else task.get_coro()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="jobqueue-loop", daemon=True).start()
        return self._loop

    # -- on the loop's thread -------------------------------------------------------------------------------------

    def _start(
        self, key: Hashable, coroutine: Coroutine[Any, Any, Any], answer: Future[Outcome], context: contextvars.Context
    ) -> None:
        def ended(task: asyncio.Task[Outcome]) -> None:
            del self._tasks[key]
            if task.cancelled():  # before its first step
                coroutine.close()
                answer.set_result((None, asyncio.CancelledError()))
            else:
                answer.set_result(task.result())

        loop = asyncio.get_running_loop()
        task = self._tasks[key] = loop.create_task(self._outcome(coroutine), context=context)
        task.add_done_callback(ended)

    async def _outcome(self, coroutine: Coroutine[Any, Any, Any]) -> Outcome:
        # Errors are values here: a handler's SystemExit would end the loop, and with it every neighbour.
        try:
            value, error = await coroutine, None
        except BaseException as raised:  # noqa: BLE001  (carried to the executor, whose place it is)
            value, error = None, raised
        if any_opened() and len(self._tasks) == 1:  # else a neighbour may be using them
            await sync_to_async(tidy_connections)()
        return value, error

    def _cancel(self, key: Hashable) -> None:
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()
