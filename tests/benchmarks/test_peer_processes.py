"""The driver's protocol, and the processes of a peer: none outlives its block, and what goes wrong is told."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.peers import processes
from benchmarks.peers.errors import PeerFailed
from benchmarks.peers.processes import DriverProcess

DRIVER = """
import os
from benchmarks.peers.drivers.base import Driver, serve

class Peer(Driver):
    def finished(self):
        print("chatter of the peer's own")
        return 42

    def waiting(self):
        raise LookupError("no such table")

    def enqueue(self, number):
        self.numbers = [*getattr(self, "numbers", []), number]

    def enqueue_bulk(self, numbers):
        self.numbers = [*getattr(self, "numbers", []), *numbers]

    def commands(self, workers):
        return [self.numbers] * workers

    def setup(self):
        os._exit(3)

    def enqueue_later(self, numbers, seconds):
        import threading
        threading.Event().wait()

serve(Peer())
"""
# A worker with a child of its own; it says both pids and ignores the polite signal.
STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(os.getpid(), child, flush=True)
signal.pause()
"""


@pytest.fixture
def driver() -> Iterator[DriverProcess]:
    with DriverProcess([sys.executable, "-c", DRIVER], {**os.environ}) as process:
        yield process


def test_a_verb_is_answered_whatever_the_peer_prints(driver: DriverProcess) -> None:
    assert [driver.call("finished"), driver.call("finished")] == [42, 42]


def test_an_error_in_the_driver_is_told_and_it_goes_on(driver: DriverProcess) -> None:
    with pytest.raises(PeerFailed, match="waiting: LookupError: no such table"):
        driver.call("waiting")

    assert driver.call("finished") == 42


def test_one_by_one_ends_at_the_last_number_or_when_the_time_is_up(driver: DriverProcess) -> None:
    assert driver.call("one_by_one", first=5, count=3, seconds=60)["count"] == 3
    assert driver.call("one_by_one", first=8, count=3, seconds=0)["count"] == 1

    assert driver.call("commands", workers=1)["commands"] == [[5, 6, 7, 8]]


def test_a_fill_enqueues_every_number_in_calls_of_the_bulk_api(driver: DriverProcess) -> None:
    done = driver.call("fill", first=10, count=2_500)

    assert done["count"] == 2_500
    assert driver.call("commands", workers=1)["commands"] == [list(range(10, 2_510))]


def test_paced_jobs_are_stamped_one_by_one(driver: DriverProcess) -> None:
    before = time.monotonic_ns()

    stamps = driver.call("paced", first=0, count=3, every_ms=10)

    assert len(stamps) == 3
    assert before < stamps[0] < stamps[1] < stamps[2]
    assert stamps[2] - before >= 20_000_000


def test_a_driver_that_ends_is_told_with_its_code(driver: DriverProcess) -> None:
    with pytest.raises(PeerFailed, match="setup: the driver ended with code 3"):
        driver.call("setup")


def test_a_verb_that_hangs_is_given_up(driver: DriverProcess) -> None:
    with pytest.raises(PeerFailed, match="was not done within"):
        driver.call("later", first=0, count=1, seconds=1, within=0.1)


def test_workers_are_gone_at_the_end_with_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.1)

    with processes.workers([[sys.executable, "-c", STUBBORN]], os.environ) as running:
        while len(pids := running.log().split()) < 2:
            running.check()
        assert all(psutil.pid_exists(int(pid)) for pid in pids)

    _, alive = psutil.wait_procs([psutil.Process(int(pid)) for pid in pids if psutil.pid_exists(int(pid))], timeout=10)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.skipif(not processes.LEASH, reason="needs setpriv")
def test_a_worker_ends_when_the_harness_is_killed() -> None:
    harness = """
import os, sys
from benchmarks.peers.processes import workers
with workers([[sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]], os.environ) as running:
    while running.log() != "up":
        running.check()
    print(running.processes[0].pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", harness], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = psutil.Process(int(process.stdout.readline()))
        process.kill()

    gone, _ = psutil.wait_procs([worker], timeout=10)
    assert gone == [worker]


def test_a_worker_that_ended_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such option')"]

    with processes.workers([command], os.environ) as running:
        running.processes[0].wait()
        with pytest.raises(PeerFailed, match="ended with code 1: no such option"):
            running.check()


def test_a_worker_whose_program_is_missing_is_a_failure_of_the_peer() -> None:
    with pytest.raises(PeerFailed, match="did not start"), processes.workers([["/no/such/program"]], os.environ):
        pass
