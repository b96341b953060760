"""A machine that has no process left for another child: a slot less for a while, and nothing else."""

import os
import signal
from pathlib import Path

import pytest

from jobqueue.children.launcher import Launcher, ZygoteFailed
from jobqueue.models import Job
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor


def refused(after: int, times: int) -> dict[str, str]:
    return {"PROBE_FORKS_REFUSED": f"{after},{times}"}


def test_a_worker_whose_first_forks_are_refused_works_when_they_are_not(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    job = enqueue("ok")
    worker = launch("--processes", "1", env=refused(0, 2))

    wait_for(job)

    assert Job.objects.get(pk=job.pk).attempts == 1
    worker.says("a child could not be forked, its slot waits: [Errno 11]")
    assert "the zygote ended" not in worker.log


def test_what_runs_in_other_children_goes_on(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """The zygote ended with the error, and every running job of the worker with it."""
    worker = launch("--processes", "2", env=refused(2, 3))
    running = enqueue("mark", seconds=4)
    (start,) = effects.wait("start")
    idle = next(pid for pid in worker.children if pid != start.pid)

    os.kill(idle, signal.SIGKILL)
    worker.says("a child could not be forked")
    other = enqueue("ok")

    wait_for(running)
    wait_for(other)
    for job in Job.objects.filter(pk__in=[running.pk, other.pk]):
        assert (job.status, job.attempts, job.interruptions) == (Status.DONE, 1, 0)
    assert effects.count("start") == 1
    assert "the zygote ended" not in worker.log


def test_a_zygote_that_cannot_be_started_is_worth_another_try(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error of the system ended the supervisor, with what had ended and was not settled yet."""
    monkeypatch.setattr("jobqueue.children.launcher.sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("jobqueue.children.launcher.adopt_orphans", lambda: None)  # this process is no supervisor

    with pytest.raises(ZygoteFailed, match=r"could not be started: .*No such file") as failed:
        Launcher("w1").start()

    assert failed.value.killed
