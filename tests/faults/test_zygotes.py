"""Zygotes that are killed before they are ready: a machine short of memory kills more than one."""

from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

IMPORTS_LONG = {"PROBE_IMPORT_SECONDS": "3"}
CANNOT_GO_ON = 1


def kill_zygote(worker: RunningWorker) -> int:
    """Kill the zygote, which may still be importing the handlers, and return its pid."""
    pid = worker.zygote
    processes.kill(pid)
    return pid


def another_zygote(worker: RunningWorker, *before: int) -> None:
    """Wait until there is one that was not there before."""
    until(
        lambda: any(
            pid not in before and "jobqueue.children.zygote" in processes.command_line(pid)
            for pid in processes.children(worker.pid)
        ),
        what=lambda: f"another zygote:\n{worker.log}",
    )


def test_a_zygote_that_is_killed_before_it_is_ready_is_replaced_too(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C13: the worker lives, and the job that ran runs again, uncharged."""
    worker = launch("--processes", "1", env=IMPORTS_LONG)
    job = enqueue("mark", seconds=1)
    effects.wait("start")

    first = kill_zygote(worker)
    another_zygote(worker, first)
    kill_zygote(worker)

    done = wait_for(job, within=20)
    assert (done.attempts, done.interruptions) == (1, 1)
    assert worker.code is None
    assert worker.log.count("killed before it was ready") == 1


def test_a_worker_whose_zygotes_are_all_killed_says_so_and_ends_as_failed(launch: Launch) -> None:
    """C13, C158: by an exit code that a service manager starts it again for, and without a traceback."""
    worker = launch("--processes", "1", env=IMPORTS_LONG)
    worker.expected_to_end = True

    seen = [kill_zygote(worker)]
    for _ in range(3):
        another_zygote(worker, *seen)
        seen.append(kill_zygote(worker))

    assert worker.ends() == CANNOT_GO_ON
    assert "no zygote, the worker stops" in worker.log
