"""What a check works with: the backend under test, a way to have tasks run, and what was traced."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import connections
from django.test import override_settings

from . import trace
from .api import task_backends
from .drains import Worker, function_of
from .registry import NotSupported

_PAUSE: Final = 0.1
_ROUNDS: Final = 5  # of a command or function that ends by itself while tasks are left


class Bounds(NamedTuple):
    """Seconds: for a task to be run by a healthy worker, and for a task to be seen to after a crash."""

    run: float
    crash: float


class Bench:
    """One for each check."""

    def __init__(self, drain: str, bounds: Bounds, folder: Path) -> None:
        self.bounds = bounds
        self._drain = drain
        self._folder = folder

    @property
    def backend(self) -> Any:
        """The backend under test, made anew where settings have changed."""
        return task_backends["default"]

    def supports(self, feature: str) -> bool:
        """Tell whether the backend claims a feature: defer, async_task, get_result, priority."""
        return bool(getattr(self.backend, f"supports_{feature}", False))

    def require(self, needs: tuple[str, ...]) -> None:
        """Raise NotSupported for the first need that is not met."""
        for need in needs:
            if need == "worker":
                if not self._drain or function_of(self._drain) is not None:
                    raise NotSupported("--tasks-drain names no command, so there is no process to kill")
            elif need == "drain":
                if not self._drain:
                    raise NotSupported("no --tasks-drain was given, so no task runs")
            elif need == "database":
                if not settings.DATABASES:
                    raise NotSupported("the project has no database")
            elif not self.supports(need):
                raise NotSupported(f"the backend says supports_{need} = False")

    def mark(self) -> str:
        """Return a text that no other task has."""
        return uuid.uuid4().hex

    def get(self, result: Any) -> Any:
        """Return the result of a task as the backend has it now."""
        return self.backend.get_result(result.id)

    def drain(self, *results: Any, until: Callable[[], bool] | None = None) -> list[Any]:
        """Have tasks run until those of the results have finished (or until told so), and return their results anew."""

        def is_done() -> bool:
            return all(self.get(result).is_finished for result in results) and (until is None or until())

        function = function_of(self._drain)
        if function is None:
            self._drain_by_command(is_done)
        else:
            for _ in range(_ROUNDS):
                try:
                    function()
                except BaseException as error:
                    raise AssertionError(f"the drain itself ended with {error!r}") from error
                if is_done():
                    break
        now = [self.get(result) for result in results]
        states = [str(result.status) for result in now]
        bound = f"{self.bounds.run:g} seconds" if function is None else f"{_ROUNDS} drains"
        assert is_done(), f"not finished after {bound}: {states}{self._last_words()}"
        return now

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """Run the worker's command, for as long as the block lasts."""
        with Worker(self._drain, self._log) as worker:
            yield worker

    def keep_working(self, worker: Worker, until: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so, for at most that long; start the worker again when it has ended."""
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                return False
            if worker.has_ended:
                worker.start()
            time.sleep(_PAUSE)
        return True

    def wait(self, until: Callable[[], bool], what: str) -> None:
        """Wait until something is so; fail when it does not come to be."""
        end = time.monotonic() + self.bounds.run
        while not until():
            assert time.monotonic() < end, f"{what}: not within {self.bounds.run:g} seconds{self._last_words()}"
            time.sleep(_PAUSE)

    def traced(self, kind: str, result: Any) -> list[dict[str, Any]]:
        """Return what was traced of a task's id."""
        return trace.read(kind, str(result.id))

    def ran(self, mark: str) -> int:
        """Return how many times the task with the mark has run."""
        return len(trace.read("ran", mark))

    @contextmanager
    def settings(self, **changes: Any) -> Iterator[None]:
        """Override parts of the default backend's settings."""
        tasks = {**settings.TASKS, "default": {**settings.TASKS["default"], **changes}}
        with override_settings(TASKS=tasks):
            yield

    @contextmanager
    def no_queries(self) -> Iterator[None]:
        """Fail on any query to any database."""

        def refuse(execute: Any, sql: str, *rest: Any) -> Any:
            raise AssertionError(f"asks the database: {sql[:100]}")

        open_ones = [connection.execute_wrapper(refuse) for connection in connections.all()]
        for wrapper in open_ones:
            wrapper.__enter__()
        try:
            yield
        finally:
            for wrapper in open_ones:
                wrapper.__exit__(None, None, None)

    @property
    def _log(self) -> Path:
        return self._folder / "worker.log"

    def _drain_by_command(self, is_done: Callable[[], bool]) -> None:
        with self.worker() as worker:
            self.keep_working(worker, is_done, self.bounds.run)

    def _last_words(self) -> str:
        words = Worker("none", self._log).last_words()
        return f"\nthe worker's last words:\n{words}" if words else ""
