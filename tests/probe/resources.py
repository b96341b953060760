"""Handlers that take memory, start programs, and leave things behind."""

import ctypes
import errno
import itertools
import mmap
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobqueue import MB, Limits, job

from .effects import record

_leaked: list[bytearray] = []
_ballast = bytearray(b"x" * (int(os.environ.get("PROBE_BALLAST_MB", "0")) * MB))  # of the zygote
SLEEPER = ["sleep", "300"]


def refuse_forks(after: int, times: int) -> None:
    """Have this process, the zygote, fork so often, and then be refused so often, as at a container's limit."""
    fork, numbers = os.fork, itertools.count()

    def limited() -> int:
        if after <= next(numbers) < after + times:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = limited


@job("probe.alloc", limits=Limits(memory_bytes=150 * MB, duration=20))
def alloc(context: Any, *, mb: int, how: str = "once") -> int:
    """Take memory under a limit of 150 MB: at once, in steps, in C, in a grandchild, in a chain of forks."""
    record(context, "start")
    if how == "grandchild":
        code = f"x = bytearray({mb} * 2**20); x[::4096] = x[::4096]; import time; time.sleep(15)"
        subprocess.run([sys.executable, "-c", f"b = b'x' * ({mb} * 2**20); {code}"], check=False)
        return 0
    if how == "c":
        memory = mmap.mmap(-1, mb * MB)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, mb * MB)
        time.sleep(15)
        return 0
    if how == "bomb":
        _allocate_below(mb)
        time.sleep(15)
        return 0
    step = mb if how == "once" else 5
    held = []
    for _ in range(0, mb, step):
        held.append(b"x" * (step * MB))
        time.sleep(0.01)
    time.sleep(0 if mb < 150 else 15)
    return len(held)


def _allocate_below(mb: int) -> None:
    """Fork again and again, each process taking 40 MB of its own: none of them alone is over a limit."""
    if mb <= 0 or os.fork() > 0:
        return
    held = b"x" * (40 * MB)
    _allocate_below(mb - 40)
    time.sleep(15)
    os._exit(len(held) == 0)


@job("probe.numbers", limits=Limits(memory_bytes=512 * MB, duration=40))
def numbers(context: Any) -> int:
    """Do a little numerical work beside 400 MB, with many threads, a copy by fork, and much address space reserved."""
    import numpy as np  # type: ignore[import-not-found, unused-ignore]

    mine = np.ones(400 * MB // 8)
    space = mmap.mmap(-1, 4096 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(64)]
    for thread in threads:
        thread.start()
    small = np.arange(40_000.0).reshape(200, 200)
    product = small @ small
    pid = os.fork()
    if pid == 0:
        time.sleep(1)  # long enough to be sampled
        os._exit(0)
    os.waitpid(pid, 0)
    end.set()
    for thread in threads:
        thread.join()
    space.close()
    return mine.nbytes // MB if product.shape == (200, 200) else 0


@job("probe.reserve", limits=Limits(memory_bytes=150 * MB, duration=20))
def reserve(context: Any) -> str:
    """Reserve far more than the limit without touching it: address space, stacks of threads, a copy by fork."""
    record(context, "start")
    space = mmap.mmap(-1, 4096 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(64)]
    for thread in threads:
        thread.start()
    mine = b"x" * (70 * MB)
    copies = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            time.sleep(0.5)
            os._exit(0)
        copies.append(pid)
    for pid in copies:
        os.waitpid(pid, 0)
    end.set()
    for thread in threads:
        thread.join()
    space.close()
    return f"{len(mine)} bytes"


@job("probe.leak")
def leak(context: Any, *, mb: int, seconds: float = 0) -> int:
    """Never give the memory back."""
    _leaked.append(bytearray(b"x" * (mb * MB)))
    time.sleep(seconds)
    return os.getpid()


@job("probe.leftovers", limits=Limits(duration=1))
def leftovers(context: Any, *, kind: str, wait: float = 0) -> int:
    """Start programs and leave them running: plain ones, a pipeline, some in sessions of their own, orphans."""
    for pid in _start(kind):
        record(context, "program", pid)
    time.sleep(wait)
    return os.getpid()


def _start(kind: str) -> list[int]:
    if kind == "plain":
        return [subprocess.Popen(SLEEPER).pid for _ in range(3)]
    if kind == "pipeline":
        return [subprocess.Popen("sleep 301 | sleep 302", shell=True).pid]
    if kind == "session":
        return [subprocess.Popen(SLEEPER, start_new_session=True, env={}).pid]
    if kind == "fork":
        return [_forked()]
    if kind == "thread":  # that goes on, so that its program does not become the main thread's
        answer: queue.SimpleQueue[int] = queue.SimpleQueue()
        threading.Thread(target=_start_and_stay, args=[answer], daemon=True).start()
        return [answer.get()]
    if kind == "joined thread":
        with ThreadPoolExecutor(1) as pool:
            return [pool.submit(subprocess.Popen, SLEEPER).result().pid]
    # The shell ends at once, its programs go on without a parent: in sessions of their own, one without environment.
    script = "setsid sleep 303 & echo $!; env -i setsid sleep 304 & echo $!; sleep 305 & echo $!"
    with tempfile.TemporaryFile("w+") as told:
        subprocess.run(script, shell=True, check=True, stdout=told, stderr=subprocess.DEVNULL)
        told.seek(0)
        return [int(line) for line in told]


def _start_and_stay(told: queue.SimpleQueue[int]) -> None:
    told.put(subprocess.Popen(SLEEPER).pid)
    threading.Event().wait()


def _forked() -> int:
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(1)
    return pid


@job("probe.returns_twice")
def returns_twice(context: Any) -> int:
    """Fork, and return in both processes."""
    return os.fork()
