"""`runworker --reload`: new code is run by a new worker, and no job suffers from that."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import pytest

from jobqueue.management import reloading
from jobqueue.models import Job, Worker
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .launching import ROOT, RunningWorker
from .waiting import until

HANDLER = """from jobqueue import job


@job("reloaded.answer")
def answer(context):
    return {answer!r}
"""


class App:
    """An app whose only handler says which release it is of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "reloaded"
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()
        self.env = {"PROBE_APPS": "reloaded", "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}

    def write(self, text: str) -> None:
        """Write the handlers; a text of another length than the last, for Python's cache of compiled code."""
        (self.folder / "jobs.py").write_text(text)


@pytest.fixture
def app(tmp_path: Path) -> App:
    app = App(tmp_path)
    app.write(HANDLER.format(answer="old"))
    return app


@pytest.fixture
def answer(make_job: Callable[..., Job], wait_for: WaitFor) -> Callable[[], str]:
    """Return the function that runs the handler once and tells its answer."""
    return lambda: wait_for(make_job(job_type="reloaded.answer", payload={}), within=20).result


def started(worker: RunningWorker, *, times: int) -> None:
    worker.says("worker started worker=", times=times, within=30)


def test_new_code_is_run_once_what_runs_has_ended(
    launch: Launch, app: App, answer: Callable[[], str], enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C164: the running job ends well, in its first attempt; the next one finds the new code."""
    worker = launch("--reload", "--processes", "2", env=app.env)
    assert answer() == "old"
    running = enqueue("mark", seconds=3)
    effects.wait("start")

    app.write(HANDLER.format(answer="changed"))
    worker.says("changed: the worker finishes what runs")

    done = wait_for(running)
    assert (done.attempts, done.interruptions, effects.count("start")) == (1, 0, 1)
    started(worker, times=2)
    assert answer() == "changed"


@pytest.mark.faults
def test_what_does_not_end_in_time_is_given_back_to_the_next_worker(
    launch: Launch, app: App, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C164: an interruption, uncharged."""
    launch("--reload", "--processes", "1", env=app.env, SHUTDOWN_TIMEOUT=0.2)
    running = enqueue("tidy_stop", seconds=4)
    effects.wait("start")

    app.write(HANDLER.format(answer="changed"))

    effects.wait("start", times=2, within=20)
    done = wait_for(running)
    assert (done.attempts, done.interruptions) == (1, 1)


@pytest.mark.faults
def test_code_that_is_broken_is_waited_for(launch: Launch, app: App, answer: Callable[[], str]) -> None:
    """C164: broken handlers fail only their own jobs, a broken app stops the worker; with the next change both work."""
    worker = launch("--reload", "--processes", "1", env=app.env)
    worker.may_show_tracebacks = True
    app.write("def broken(:\n")
    worker.says("handlers not imported module=reloaded.jobs", within=30)
    (app.folder / "apps.py").write_text("raise RuntimeError('no app')\n")
    (app.folder / "apps.py").touch()

    app.write("def broken(:  # twice\n")
    worker.says("could not start: waiting for a change", within=30)
    (app.folder / "apps.py").write_text("")
    app.write(HANDLER.format(answer="mended"))

    started(worker, times=3)
    assert answer() == "mended"


def test_a_reloader_stops_and_dies_with_its_worker(
    launch: Launch, app: App, enqueue: Enqueue, effects: Effects
) -> None:
    """C164, C158: a signal is passed on; after kill -9 nothing of it runs on."""
    first = launch("--reload", "--processes", "1", env=app.env)
    first.stop()
    assert first.ends() == 0
    assert not Worker.objects.exists()

    second = launch("--reload", "--processes", "1", env=app.env)
    job = enqueue("mark", seconds=60)
    effects.wait("start")
    second.expected_to_end = True
    processes.kill(second.pid)

    until(lambda: not second.tree(), within=3, what="the end of all its processes")
    Job.objects.filter(pk=job.pk).update(status=Status.CANCELLED)


class Signalled(reloading.Reloader):
    """Is told to stop while it starts its worker: when nobody is there yet to pass that on to."""

    def _start(self) -> subprocess.Popen[bytes]:
        self._on_signal(signal.SIGTERM, None)
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])


def test_a_signal_that_comes_while_a_worker_starts_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the worker would go on until a second Ctrl-C, which cuts off what it runs."""
    monkeypatch.setattr(reloading, "_watch", lambda: repeat(None))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers of the tests' own process stay

    assert Signalled(print).run() == -signal.SIGTERM
