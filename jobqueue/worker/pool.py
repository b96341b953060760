"""The children: what each has been given, what it runs now, and the bytes that come back."""

from __future__ import annotations

import contextlib
import errno
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from jobqueue.children.launcher import Channels, Launcher
from jobqueue.children.processes import private_bytes
from jobqueue.children.protocol import Notice, Reader, Report, Work, send_job, send_message, take_back

from .holding import Held

READ_BYTES = 1 << 18
LONG_SECONDS = 0.05  # a job that has run so long has nothing given behind it
RECEIVERS_SECONDS = 30.0  # for the receivers of a signal that is sent for another process
LOOK_INTO_SECONDS = 10.0  # the kernel walks all pages for it: 20 ms a GB


@dataclass(slots=True, eq=False)
class Child:
    """One child process. `queue` holds what it was given and has not ended, in order; the first `slots` of it run."""

    key: str
    slots: int
    channels: Channels
    own: bool = False  # it runs the package's own jobs, and no others
    pid: int | None = None
    ready_at: float = 0.0
    served: int = 0
    retiring: bool = False
    worn: bool = False  # what a handler left runs on in it: only its end ends that
    too_large: bool = False  # it gets nothing more, and is replaced once it is empty
    shared_bytes: int = 0  # of its resident memory, when that was last looked into
    look_into_at: float = 0.0  # monotonic: when to do so again
    dead: bool = False
    closed: bool = False
    size: tuple[float, int] = (0.0, 0)  # its resident memory, and when that was looked at: for the price list only
    killed_at: float | None = None  # monotonic: when the zygote was told to kill it
    obeyed: bool = False  # the zygote has killed it; the kernel may take its time
    heaped_at: float | None = None  # monotonic: since when more work waits in its inbox than should
    alone: Held | None = None
    awaiting: int = 0  # of the queue: have ended and wait for their verdict, or are being told of
    notices: int = 0  # signals that it has still to send: one of its slots is theirs
    telling_since: float | None = None  # monotonic: since when the receivers of one are called
    unsent: list[Notice] = field(default_factory=list)  # taken back before it had begun: for another child
    queue: dict[tuple[int, int], Held] = field(default_factory=dict)
    reader: Reader = field(default_factory=Reader)

    def running(self) -> list[Held]:
        """Return the jobs whose handlers run now."""
        if self.pid is None:
            return []
        return list(itertools.islice(self.queue.values(), self.slots))

    def waiting(self) -> int:
        """Return how many jobs wait in its inbox."""
        return max(0, len(self.queue) - self.slots)

    def accepts(self) -> bool:
        """Tell whether it may be given more."""
        return not (self.retiring or self.dead or self.too_large or self.notices or self.alone is not None)

    def lags(self, now: float, seconds: float = LONG_SECONDS) -> bool:
        """Tell whether a handler in it has been running for longer."""
        return any(held.started is not None and now - held.started > seconds for held in self.running())

    def keeps_waiting(self) -> bool:
        """Tell whether something waits in its inbox for a slot: a job, or a signal to send."""
        return len(self.queue) + bool(self.notices) > self.slots

    def may_tell(self, now: float) -> bool:
        """Tell whether it may be given a signal to send, which must not wait behind a long job."""
        return self.accepts() and (len(self.queue) < self.slots or not self.lags(now))

    def mark_started(self) -> list[Held]:
        """Note the start of jobs whose turn has come; returns those that just began."""
        begun = []
        if self.pid is not None:
            for held in itertools.islice(self.queue.values(), self.slots):
                if held.started is None:
                    held.started = time.monotonic()
                    begun.append(held)
        return begun

    def give(self, item: Held) -> bool:
        """Put a job into its inbox. Returns False when that is full."""
        job = item.job
        try:
            send_job(
                self.channels.inbox,
                *(job.id, job.lease_epoch, job.job_type, job.queue, job.attempts, job.max_attempts),
                *(job.payload_bytes, job.payload, job.trace_context),
            )
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            self.retiring = True  # its death is on the way as an event
            return False
        except OSError as error:
            # Payloads on the way as files are limited for each user. A fuller inbox is as good a reason to wait.
            if error.errno != errno.ETOOMANYREFS:
                raise
            return False
        item.child = self.key
        self.queue[item.fence] = item
        return True

    def notify(self, notice: Notice) -> bool:
        """Have it send a signal. Returns False when its inbox is full."""
        try:
            send_message(self.channels.inbox, notice)
        except OSError:
            return False
        self.notices += 1
        return True

    def recall(self) -> list[Held]:
        """Take back, in order, what it has not begun."""
        back = []
        for item in take_back(self.channels.inbox_far):
            if isinstance(item, Work):
                held = self.queue.pop((item.id, item.lease_epoch), None)
                if held is not None:
                    held.child = None
                    held.started = None
                    if self.alone is held:
                        self.alone = None
                    back.append(held)
            else:
                self.notices -= 1
                self.unsent.append(item)
        return back

    def reports(self) -> Iterator[Report]:
        """Read what has come back."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError, ValueError, OSError):
            while data := self.channels.results.recv(READ_BYTES):
                yield from self.reader.feed(data)
                if len(data) < READ_BYTES:
                    return

    def finished(self, fence: tuple[int, int]) -> Held | None:
        """Note that a job ended; returns it."""
        held = self.queue.pop(fence, None)
        if held is not None:
            self.served += 1
            if self.alone is held:
                self.alone = None
        return held

    def tell(self, word: str, fence: tuple[int, int], value: str | int) -> None:
        """Send a word on its control socket: 'stop' with the reason, or 'verdict' with the status."""
        with contextlib.suppress(OSError):
            self.channels.control.send(f"{word}\t{fence[0]}\t{fence[1]}\t{value}".encode())

    def close_inbox(self) -> None:
        """Let it end when it has done what it has."""
        if not self.closed:
            self.closed = True
            self.channels.inbox.close()

    def outgrows(self, limit_bytes: int, *, resident: int, now: float) -> bool:
        """Tell whether more of its resident bytes than these are shared with no other process."""
        if self.pid is None or resident <= limit_bytes:
            return False
        # What it shares with the zygote, which imported the project, becomes its own page by page as it writes to it.
        if resident - self.shared_bytes > limit_bytes or now >= self.look_into_at:
            self.shared_bytes, self.look_into_at = resident - private_bytes(self.pid), now + LOOK_INTO_SECONDS
        return resident - self.shared_bytes > limit_bytes

    def too_fat_for(self, memory_bytes: int) -> bool:
        """Tell whether its idle size leaves a job with this memory limit less than half of it."""
        return self.served > 0 and self.pid is not None and private_bytes(self.pid) > memory_bytes / 2


class Crew:
    """Children that are dealt the same jobs: those of the common slots, or the one of the worker's own slot."""

    def __init__(self, pool: Pool, *, processes: int, threads: int, own: bool = False) -> None:
        self._pool, self._own = pool, own
        self.processes, self.threads = processes, threads
        self.children: dict[str, Child] = {}

    @property
    def slots(self) -> int:
        """How many jobs run at a time."""
        return self.processes * self.threads

    @property
    def serving(self) -> list[Child]:
        """The children that may be given more, now or when they have ended what they run alone."""
        return [child for child in self.children.values() if not (child.retiring or child.dead)]

    def fill(self) -> list[Child]:
        """Fork what is missing; a child that retires is replaced before it has ended."""
        return [self._pool.fork(self, own=self._own) for _ in range(self.processes - len(self.serving))]

    def due(self, max_jobs: int) -> list[Child]:
        """Return the children that are to be replaced now.

        Each ends what it runs beside its successor, so no more retire at a time than there are processes: jobs of hours
        would else run in ever more of them. One that is too large is not replaced beside anything.
        """
        serving = self.serving
        empty = [child for child in serving if child.too_large and not child.queue]
        worn = [child for child in serving if not child.too_large and (child.worn or child.served >= max_jobs)]
        if not worn:
            return empty
        return empty + worn[: max(0, self.processes - sum(child.retiring for child in self.children.values()))]

    def retire(self, child: Child) -> list[Held]:
        """Give a child nothing more and let it end; returns what it had not begun."""
        child.retiring = True
        back = child.recall()
        child.close_inbox()
        return back


class Pool:
    """All children, replaced when they die, retire or grow too large: the common ones, and the own slot's."""

    def __init__(self, launcher: Launcher, *, processes: int, threads: int) -> None:
        self.launcher = launcher
        self.common = Crew(self, processes=processes, threads=threads)
        self.own = Crew(self, processes=1, threads=1, own=True)  # filled only while there is something for it
        self.children: dict[str, Child] = {}
        self._numbers = itertools.count(1)

    @property
    def slots(self) -> int:
        """How many jobs run at a time, those of the own slot not counted."""
        return self.common.slots

    def fork(self, crew: Crew, *, own: bool) -> Child:
        """Have a child forked for a crew; its process id follows as an event."""
        key = f"c{next(self._numbers)}"
        child = Child(key, crew.threads, self.launcher.fork(key, crew.threads), own)
        self.children[key] = crew.children[key] = child
        return child

    def due(self, max_jobs: int) -> list[Child]:
        """Return the children that are to be replaced now."""
        return self.common.due(max_jobs) + self.own.due(max_jobs)

    def bury(self, child: Child) -> None:
        """Forget a dead child."""
        child.dead = True
        child.channels.close()
        for children in (self.children, self.common.children, self.own.children):
            children.pop(child.key, None)
