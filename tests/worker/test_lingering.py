"""A child that was killed and is not gone: the zygote is to blame only where it has not obeyed."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import cast

import pytest

from jobqueue.children.launcher import Channels, Launcher
from jobqueue.children.zygote import Zygote
from jobqueue.conf import get_settings
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.pool import Child, Pool
from jobqueue.worker.stops import LINGERING_SECONDS, OBEY_SECONDS, Stops

from .test_handing_out import a_job


def test_the_zygote_tells_that_it_has_killed() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        zygote = Zygote(theirs, "w1", patience=60)
        zygote._pids, zygote._keys = {"c1": process.pid}, {process.pid: "c1"}
        ours.send(json.dumps({"op": "kill", "key": "c1"}).encode())

        assert zygote._obey()
        told, code = json.loads(ours.recv(4096)), process.wait(timeout=10)
        os.close(zygote._wake_read)
        os.close(zygote._wake_write)

    assert (told, code) == ({"event": "killed", "key": "c1"}, -signal.SIGKILL)


class Told:
    """A launcher that keeps what it is told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def fork(self, _key: str, _slots: int) -> Channels:
        return Channels.open()

    def kill(self, key: str) -> None:
        self.words.append(f"kill {key}")

    def kill_zygote(self) -> None:
        self.words.append("kill the zygote")


class Parts:
    """One child that was killed with a job waiting behind the one that ran, and what watches it."""

    def __init__(self) -> None:
        self.told, self.back = Told(), list[Held]()
        self.pool = Pool(cast(Launcher, self.told), processes=1, threads=1)
        self.stops = Stops(self.pool, HeldJobs(), get_settings())
        self.stops.put_back = self.back.extend
        (self.child,) = self.pool.common.fill()
        self.items = [Held(a_job(number), boottime() + 60) for number in (1, 2)]
        for item in self.items:
            assert self.child.give(item)
        self.stops.kill(self.child)

    def after(self, seconds: float) -> Child:
        """Look at the child so long after it was killed."""
        self.stops._check_killed(self.child, (self.child.killed_at or 0.0) + seconds)
        return self.child


@pytest.fixture
def parts() -> Iterator[Parts]:
    parts = Parts()
    yield parts
    for child in list(parts.pool.children.values()):
        parts.pool.bury(child)


def test_a_zygote_that_does_not_obey_is_killed(parts: Parts) -> None:
    parts.after(OBEY_SECONDS - 0.1)
    assert parts.told.words == ["kill c1"]

    parts.after(OBEY_SECONDS + 0.1)
    assert parts.told.words == ["kill c1", "kill the zygote"]


def test_one_that_has_obeyed_is_left_alone(parts: Parts) -> None:
    """Its end took all neighbours along, for a kernel that needed a while to free many gigabytes."""
    parts.child.obeyed = True

    for seconds in (OBEY_SECONDS + 0.1, LINGERING_SECONDS - 0.1):
        assert not parts.after(seconds).retiring
    assert parts.told.words == ["kill c1"]


def test_the_slot_of_a_child_that_does_not_go_is_given_to_another(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.child.obeyed = True

    for _ in range(3):
        child = parts.after(LINGERING_SECONDS + 0.1)

    assert child.retiring
    assert [child.key for child in parts.pool.common.fill()] == ["c2"]
    assert parts.told.words == ["kill c1"]
    assert caplog.text.count("is not gone, its slot goes to another") == 1
    assert parts.items[1] in parts.back
