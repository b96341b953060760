"""A worker that is told to stop: in good order, in time, and with an exit code that tells which."""

import signal
import time

import pytest

from jobqueue.models import Attempt, Job, Worker
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .forwarder import Forwarder
from .kinds import Enqueue, Launch, StatusOf, WaitFor
from .test_outcomes import finished
from .waiting import until

GRACEFUL, FORCED = 0, 3


@pytest.mark.smoke
def test_a_stop_waits_for_what_runs_and_gives_back_what_does_not(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects
) -> None:
    """C40: nothing is claimed after the signal; both long jobs end well; the rest stay as they were."""
    worker = launch("--processes", "2", SHUTDOWN_TIMEOUT=20)
    running = [enqueue("mark", seconds=2) for _ in range(2)]
    effects.wait("start", times=2)
    waiting = [enqueue("mark") for _ in range(50)]

    began = time.monotonic()
    worker.stop()

    assert worker.ends(within=6) == GRACEFUL
    assert time.monotonic() - began < 4
    assert [status(job) for job in running] == [Status.DONE] * 2
    left = Job.objects.filter(pk__in=[job.pk for job in waiting])
    assert {(job.status, job.attempts) for job in left} == {(Status.PENDING, 0)}
    assert effects.count("start") == 2
    assert not Attempt.objects.exists()
    assert not Worker.objects.exists()


def test_interruptions_beyond_the_budget_are_charged(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects
) -> None:
    """C42: the budget is bounded: a job that stops every worker does not go on for ever."""
    job = enqueue("mark", seconds=30, _max_attempts=2)
    for restart in range(1, 4):
        worker = launch("--processes", "1", SHUTDOWN_TIMEOUT=0.1, INTERRUPTION_BUDGET=1)
        effects.wait("start", times=restart)
        worker.stop()
        worker.ends(within=4)

    dead = Job.objects.get(pk=job.pk)
    assert (Status(dead.status), dead.attempts, dead.interruptions) == (Status.DEAD, 2, 3)
    assert dead.outcome == Outcome.INTERRUPTED


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects, second: signal.Signals
) -> None:
    """C158: the running job is given back, the exit code tells that it was cut off."""
    worker = launch("--processes", "1", SHUTDOWN_TIMEOUT=60)
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    worker.stop(signal.SIGTERM)
    worker.says("worker stopping")
    worker.stop(second)

    assert worker.ends(within=3.5) == FORCED
    assert status(job) == Status.PENDING


def test_an_interrupt_from_the_terminal_reaches_the_supervisor_only(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects
) -> None:
    """C158: children get it too and take no notice; SIGHUP and SIGQUIT are stops as well, the latter at once."""
    worker = launch("--processes", "1")
    job = enqueue("mark", seconds=1)
    effects.wait("start")

    for pid in worker.tree():
        processes.send(pid, signal.SIGINT)

    assert worker.ends() == GRACEFUL
    assert status(job) == Status.DONE


def test_a_stop_takes_no_time_where_none_is_given(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects
) -> None:
    """C158: with a grace of 0."""
    worker = launch("--processes", "1", "--shutdown-timeout", "0")
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    worker.stop(signal.SIGHUP)

    assert worker.ends(within=3) == FORCED
    assert status(job) == Status.PENDING


def test_quit_is_a_stop_at_once(launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects) -> None:
    """C158: SIGQUIT, as other workers know it."""
    worker = launch("--processes", "1", SHUTDOWN_TIMEOUT=60)
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    worker.stop(signal.SIGQUIT)

    assert worker.ends(within=3) == FORCED
    assert status(job) == Status.PENDING


def test_a_stop_while_handlers_are_imported_is_obeyed(launch: Launch) -> None:
    """C158: during boot, without waiting for a slow import."""
    worker = launch(wait=False, env={"PROBE_IMPORT_SECONDS": "30"})
    until(lambda: processes.children(worker.pid), what="the zygote")
    until(lambda: "jobqueue.children.zygote" in processes.command_line(worker.zygote), what="the zygote's start")

    worker.stop()

    assert worker.ends(within=4) == GRACEFUL


def test_a_lost_zygote_keeps_no_end_and_no_stop_waiting(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, status: StatusOf, effects: Effects
) -> None:
    """C158, C13: while another one imports the handlers, what ended is settled, and a stop is obeyed."""
    worker = launch("--processes", "1", env={"PROBE_IMPORT_SECONDS": "8"})
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    processes.kill(worker.zygote)

    assert wait_for(job, Status.PENDING, within=4).interruptions == 1
    until(lambda: "jobqueue.children.zygote" in processes.command_line(worker.zygote), what="another zygote")
    worker.stop()
    assert worker.ends(within=5) == GRACEFUL
    assert effects.count("start") == 1
    assert status(job) == Status.PENDING


def test_a_stop_while_the_database_is_down_is_obeyed(
    launch: Launch, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """C158: at boot, where the worker waits for its database."""
    worker = launch(wait=False, env=through_proxy)
    worker.says("waiting for the database", within=15)

    worker.stop()

    assert worker.ends(within=4) == GRACEFUL


@pytest.mark.parametrize(("grace", "delay"), [(10, 1.0), (0, 0.3)])
def test_a_stop_during_the_finish_write_waits_for_it(
    launch: Launch,
    enqueue: Enqueue,
    status: StatusOf,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    grace: float,
    delay: float,
) -> None:
    """C158: a result on its way to a slow database is stored, and the exit code says that nothing was cut off."""
    proxy.open()
    worker = launch("--processes", "1", "--shutdown-timeout", str(grace), env=through_proxy)
    finished([enqueue("ok")])  # its connection is there already
    proxy.delay(delay, "jobqueue settle")
    job = enqueue("mark", seconds=0.3)
    effects.wait("end")
    assert status(job) == Status.RUNNING

    began = time.monotonic()
    worker.stop()

    assert worker.ends(within=grace + 8) == GRACEFUL
    assert time.monotonic() - began < grace + 3
    assert status(job) == Status.DONE
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("how", ["shut", "swallow"])
def test_a_stop_while_the_database_is_away_ends_in_time(
    launch: Launch, enqueue: Enqueue, effects: Effects, proxy: Forwarder, through_proxy: dict[str, str], how: str
) -> None:
    """C158: never longer than the grace and three seconds; what cannot be written is left to the reaper."""
    proxy.open()
    worker = launch("--processes", "1", "--shutdown-timeout", "1", env=through_proxy)
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    getattr(proxy, how)()
    began = time.monotonic()
    worker.stop()

    assert worker.ends(within=8) == FORCED
    assert time.monotonic() - began < 1 + 3
    Job.objects.filter(pk=job.pk).update(status=Status.CANCELLED)
