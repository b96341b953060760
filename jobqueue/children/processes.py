"""Linux process matters, read from /proc: descendants, memory, groups; and the two prctl calls that tie lives together.

Read directly: a tree walk by psutil costs 1.9 ms where these reads cost 22 microseconds, and they are made many times
a second for jobs with a memory limit.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Collection, Iterable
from math import inf

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
AT_ONCE_SECONDS = 0.0002  # ten times what a child takes between two jobs
MOMENT_SECONDS = 0.0001


def trim_memory() -> None:
    """Give back to the system what start-up allocated and freed: a process that runs for months need not keep it."""
    with contextlib.suppress(AttributeError):  # glibc has it, musl does not
        ctypes.CDLL(None).malloc_trim(0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; exit at once if it already has."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every orphan among this process's descendants (subreaper)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`: those of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return every process below `pid`, parents before their children."""
    found: list[int] = []
    level = children_of(pid)
    while level:
        found += level
        level = [child for parent in level for child in children_of(parent)]
    return found


def resident_bytes(pid: int) -> int:
    """Return the resident memory of one process, shared pages included: cheap, and an upper bound. Gone: 0."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


class CpuClock:
    """The CPU time of this process and of all children that it has waited for: programs do work, too.

    Each reading takes two system calls. So a job that follows another at once starts where that one ended: the few
    microseconds between, which this process takes for each of them, are in its time.
    """

    __slots__ = ("_read_at", "_seconds")

    def __init__(self) -> None:
        self._seconds, self._read_at = 0.0, -inf

    def read(self) -> float:
        """Return the seconds so far."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._seconds = seconds = time.process_time() + children.ru_utime + children.ru_stime
        self._read_at = time.monotonic()
        return seconds

    def start(self) -> float:
        """Return the seconds at the start of a job: those at the end of the last one, where it was a moment ago."""
        # Whatever else came between, receivers or another thread, has no more time than that to be charged for.
        return self._seconds if time.monotonic() - self._read_at < AT_ONCE_SECONDS else self.read()


def cpu_seconds_of(pids: Iterable[int]) -> float:
    """Return the CPU time of processes, that of children they have waited for included. Gone: nothing is added."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
    return ticks / TICKS_A_SECOND


def proportional_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes with shared pages divided among their users (PSS): exact, and slower."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
            total += next((int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:")), 0)
    return total


def private_bytes(pid: int) -> int:
    """Return the memory that one process shares with no other. Gone: 0."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Private_"))
    except OSError:
        return 0


def kill(pids: Iterable[int]) -> None:
    """Kill processes; those already gone are no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_group(pgid: int) -> None:
    """Kill a process group; one already gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)


def end_descendants(spare: Collection[int] = ()) -> None:
    """Kill and reap everything below this process, a subreaper: the death of a parent brings its children here.

    Children in `spare`, and what is below them, are left alone.
    """
    for _ in range(100):
        mine = [pid for pid in children_of(os.getpid()) if pid not in spare]
        if not mine:
            return
        kill([pid for parent in mine for pid in (parent, *descendants_of(parent))])
        for pid in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        select.select([], [], [], 0.005)


class Offspring:
    """Tells by one system call whether this process has a child, dead or alive."""

    def __init__(self) -> None:
        """Watch the children of the thread that calls, the main one."""
        try:
            self._list = os.open(f"/proc/self/task/{_thread.get_native_id()}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel built without these lists
            self._list = -1

    def any(self, *, after: float) -> bool:
        """Tell whether there is one, after a job of so many seconds.

        In a moment nobody starts a thread that starts a program: then the main thread's list is enough.
        """
        if self._list < 0 or after > MOMENT_SECONDS or _thread._count():
            return _has_children()
        try:
            return bool(os.pread(self._list, 16, 0))
        except OSError:  # a handler has closed what was not its own
            self._list = -1
            return _has_children()


def _has_children() -> bool:
    # Of all threads; but its usual answer is an exception, which takes twice the time of reading the list.
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
