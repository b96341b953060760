"""Restart a worker when code changes: `runworker --reload`, for development.

This process watches with Django's own machinery, as runserver does, and starts the worker as a process below it. When a
file has changed it asks the worker to stop, so that running jobs are finished or, after SHUTDOWN_TIMEOUT, given back;
then it starts another. One that cannot start, for an error in the code, is started again with the next change.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from django.apps import apps
from django.utils import autoreload

from jobqueue.children.processes import die_with_parent
from jobqueue.registry import registry

RELOADED = {autoreload.DJANGO_AUTORELOAD_ENV: "true"}  # what runserver's process is told by, too
COULD_NOT_START = 1
LOOK_SECONDS = 0.25


def is_below_reloader() -> bool:
    """Tell whether this process is the worker that a reloader has started."""
    return os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true"


class Reloader:
    """Runs one worker after another."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._changed: list[Path] = []
        self._asked: list[int] = []  # signals that came
        self._unsent: deque[int] = deque()  # those of them that no worker was there for
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Serve until told to stop, or until a worker ends by itself; returns its exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._on_signal)
        autoreload.file_changed.connect(self._note_change)
        ticks = _watch()
        while True:
            self._changed.clear()
            self._worker = self._start()
            self._pass_on()  # what came while it was being started
            code = self._follow(ticks)
            if self._asked or (code != COULD_NOT_START and not self._changed):
                return code
            if not self._changed:
                self._say("the worker could not start: waiting for a change")
            while not self._changed:
                next(ticks)
                if self._asked:
                    return code

    def _start(self) -> subprocess.Popen[bytes]:
        # A process group of its own: Ctrl-C in a terminal must not reach it twice.
        return subprocess.Popen(
            autoreload.get_child_arguments(),
            env={**os.environ, **RELOADED},
            process_group=0,
            # Safe here: this process has one thread. No worker is left when it is killed.
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509
        )

    def _follow(self, ticks: Iterator[None]) -> int:
        """Look for changes while the worker runs, and have it stop after one; returns its exit code."""
        worker = self._worker
        assert worker is not None
        stopping = False
        while worker.poll() is None:
            if self._changed and not stopping:
                stopping = True
                self._say(f"{self._changed[0]} changed: the worker finishes what runs, then starts again")
                worker.terminate()
            if stopping or self._asked:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(LOOK_SECONDS)
            else:
                next(ticks)
        return worker.returncode

    def _note_change(self, *, file_path: Path, **_: Any) -> bool:
        self._changed.append(file_path)
        return True  # dealt with: Django's own answer would be to end this process

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._asked.append(number)
        self._unsent.append(number)
        self._pass_on()

    def _pass_on(self) -> None:
        """Send the worker each signal once: a second SIGTERM would cut off what it runs."""
        while self._unsent and self._worker is not None and self._worker.returncode is None:
            with contextlib.suppress(IndexError):  # a signal came in between, and took it along
                self._worker.send_signal(self._unsent.popleft())


def _watch() -> Iterator[None]:
    """Return the ticks of a reloader that watches every imported module, and all of the project's apps.

    What only handlers import is imported here for that; new modules of an app are found by its folder.
    """
    registry.load()
    reloader = autoreload.get_reloader()
    for config in apps.get_app_configs():
        if "site-packages" not in Path(config.path).parts:
            reloader.watch_dir(config.path, "**/*.py")
    autoreload.autoreload_started.send(sender=reloader)
    ticks: Iterator[None] = reloader.tick()
    return ticks


def run(say: Callable[[str], object]) -> NoReturn:
    """Run workers until stopped, and exit with the code of the last."""
    sys.exit(Reloader(say).run())
