"""What children report, and what is made of it: ends to settle, costs and progress to keep, deaths to account for."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from jobqueue.children.announcing import signal_for
from jobqueue.children.costs import summed
from jobqueue.children.protocol import CANCEL, DEADLINE, INTERRUPT, LEASE_LOST, Notice, Report, ending_from_json
from jobqueue.conf import get_settings
from jobqueue.handlers import Policy
from jobqueue.managers import CostLine, Done, Ending, Release
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .endings import KILL, MEMORY, apply_reason, crashed, stopped
from .holding import Held, HeldJobs
from .pool import Child, Pool
from .pricing import charged
from .telemetry import Telemetry

if TYPE_CHECKING:
    from .own import Hands
    from .settle import End, Settler
    from .stops import Stops

logger = logging.getLogger("jobqueue.run")


class Reports:
    """Turns frames and deaths into ends, and verdicts into answers."""

    def __init__(self, pool: Pool, held: HeldJobs, *, limit: Callable[[], bool]) -> None:
        self._pool, self._held, self._may_log = pool, held, limit
        self.settler: Settler
        self.hands: Hands
        self.stops: Stops
        self.telemetry = Telemetry()
        self.learn: Callable[[Policy], None] = lambda _: None
        self._tells_all = logger.isEnabledFor(logging.DEBUG)
        self.receivers: set[str] = set()  # signals that somebody listens to
        self._notices: deque[Notice] = deque()  # signals of killed children, for a living one to send
        self.ended = 0

    def read(self, child: Child, now: float) -> None:
        """Take everything that one child has reported."""
        ended = False
        for report in child.reports():
            if report.kind in "DERX":
                self._ended(child, report)
                ended = True
            elif report.kind == "A":  # the receivers of a signal have been called: only now is the slot free
                child.finished((report.id, report.lease_epoch))
                child.awaiting -= 1
                ended = True
            else:
                self._note(child, report)
        if ended:
            for held in child.mark_started():
                self.stops.began(held, now)

    def _note(self, child: Child, report: Report) -> None:
        held = self._held.get(report.id, report.lease_epoch)
        if report.kind == "C" and held is not None:
            component, unit, amount = report.value
            held.costs = summed(held.costs, CostLine(component, unit, Decimal(amount)))
        elif report.kind == "B" and held is not None and held.asked is None:
            held.started = time.monotonic()
            self.stops.began(held, held.started, first=False)
        elif report.kind == "Q":  # a task that the child has imported by its path: how it is to be run
            policy = Policy.from_json(report.value)
            self.learn(policy)
            if held is not None and held.policy is not None:
                held.policy = policy
                self.stops.began(held, time.monotonic())
        elif report.kind == "P":
            self._held.note_progress((report.id, report.lease_epoch), report.value)
        elif report.kind == "M":
            self.telemetry.take(report.value)
        elif report.kind == "S":
            child.notices -= 1
        elif report.kind == "T":  # threads of a stopped handler run on, or programs, and whose cannot be told
            child.worn = True

    def _ended(self, child: Child, report: Report) -> None:
        fence = (report.id, report.lease_epoch)
        if report.waits:
            child.awaiting += 1
            ran = child.queue.get(fence)
        else:
            ran = child.finished(fence)
        self.ended += 1
        held = self._held.get(*fence)
        if held is not ran:  # the server lost a claim in a crash, and this worker's next one has the same epoch
            held = None
        if held is None or held.lost or report.kind == "X":
            if held is not None:
                self._held.give_up(held)
            if report.waits:
                child.tell("verdict", fence, 0)
            return
        held.waits = child.key if report.waits else None
        end = self._end(held, report)
        self.settler.add(held, end if isinstance(end, Release) else charged(held, end, child))

    def _end(self, held: Held, report: Report) -> End:
        if report.kind == "R" and held.asked in (DEADLINE, INTERRUPT, CANCEL):  # it snoozed instead of stopping
            held.killed = True
            return stopped(held, held.asked)
        if report.kind == "R":
            return Release(*held.fence, _seconds(report.value), costs=held.costs)
        end: Done | Ending = report.value if report.kind == "D" else ending_from_json(report.value)
        self.hands.of(held).learn(end.run_seconds)
        if isinstance(end, Done):
            if held.asked == DEADLINE:  # it swallowed the stop and went on: not a success
                held.killed = True
                return stopped(held, DEADLINE)
            if held.costs or held.peak_memory:
                return end._replace(costs=held.costs, peak_memory=held.peak_memory)
            return end
        if end.outcome == Outcome.UNKNOWN_TYPE and held.job.task_backend is not None:
            settings = get_settings()
            if (held.job.unknown_seconds or 0) < settings.UNKNOWN_TYPE_DEAD_SECONDS:
                held.killed = True  # not the end that the child knows: another worker may have the newer code
                return Release(*held.fence, timedelta(seconds=settings.UNKNOWN_TYPE_RETRY_SECONDS), unknown=True)
        end.costs, end.peak_memory = held.costs, held.peak_memory
        if held.asked in (DEADLINE, CANCEL, INTERRUPT):
            told = end.outcome
            apply_reason(end, held, held.asked)
            held.killed = end.outcome != told  # the child knows another end than the one that is stored
        return end

    def died(self, child: Child, code: int, *, ours: bool = False) -> None:
        """Account for a dead child: what it ran has ended, what it had not begun goes to another."""
        back = child.recall()
        self._notices += [] if child.own else child.unsent  # a heartbeat that was not told is out of date
        running = [held for held in child.queue.values() if not held.ended]
        self._pool.bury(child)
        # Killed by this worker, though perhaps for a job that has ended in the last moment and is not among these.
        innocent = ours or child.killed_at is not None or any(held.asked is not None for held in running)
        for held in running:
            child.finished(held.fence)
            self._account(held, code, innocent=innocent, several=len(running) > 1)
        self.hands.put_back(back)

    def _account(self, held: Held, code: int, *, innocent: bool, several: bool) -> None:
        held.killed = held.started is not None
        self.ended += held.killed
        if held.lost or held.asked == LEASE_LOST:
            self._held.give_up(held)
        elif held.asked in (DEADLINE, CANCEL, INTERRUPT, MEMORY, KILL):
            self.settler.add(held, charged(held, stopped(held, held.asked, code), None))
        elif held.started is None:
            held.child = None
            self.hands.put_back([held])
        elif innocent:  # a neighbour's stop took it down, or the zygote's end
            self.settler.add(held, charged(held, stopped(held, INTERRUPT, code), None))
        else:
            self.settler.add(held, charged(held, crashed(held, code, with_others=several), None))

    def verdict(self, held: Held, end: End, status: int | None) -> None:
        """Answer the child that waits, send the signals of a killed one, and log what did not end well."""
        if status is not None and held.waits is None and type(end) is Done and not self._tells_all:
            return  # of most jobs there is nothing to tell
        if status is None and not held.lost and self._may_log():
            logger.warning(
                "lost lease job_id=%s lease_epoch=%s: its end was refused and nothing of it is stored", *held.fence
            )
        child = self._pool.children.get(held.waits or "")
        if child is not None:
            child.tell("verdict", held.fence, 0 if held.killed else status or 0)
        if isinstance(end, Ending) and status is not None and held.killed:
            self._send_for_killed(held, end, status)
        if isinstance(end, Ending) and status is not None and self._may_log():
            logger.info(
                "job ended job_id=%s type=%.63s queue=%.63s attempt=%s outcome=%s status=%s error_class=%s",
                *(held.job.id, held.job.job_type, held.job.queue, held.job.attempts),
                *(Outcome(end.outcome).name.lower(), Status(status).name, end.error_class),
            )
        elif self._tells_all:
            logger.debug("job settled job_id=%s type=%.63s status=%s", held.job.id, held.job.job_type, status)

    def _send_for_killed(self, held: Held, end: Ending, status: int) -> None:
        """Have a living child send the signal that the killed one cannot."""
        name, arguments = signal_for(end, status)
        if name is None or name not in self.receivers:
            return
        about: dict[str, Any] = {
            "job_id": held.job.id,
            "job_type": held.job.job_type,
            "queue": held.job.queue,
            "attempt": held.job.attempts,
            **arguments,
        }
        if "delay" in about:
            about["delay"] = about["delay"].total_seconds()
        self._notices.append(Notice(name, about))
        self.send_notices()

    def send_notices(self) -> None:
        """Hand the signals of killed children to living ones: now, or as soon as there is one."""
        # Not the own slot's: receivers may take their time, and it is kept free for what must be told at once.
        children = self._pool.common.children.values()
        for child in children:
            if child.unsent:
                self._notices += child.unsent
                child.unsent.clear()
        if not self._notices:
            return
        # Where all run long jobs, the first that ends one is given it, ahead of the next job.
        now = time.monotonic()
        idlest_first = sorted(children, key=lambda child: (len(child.queue), child.pid is None))
        while self._notices:
            notice = self._notices[0]
            if not any(child.may_tell(now) and child.notify(notice) for child in idlest_first):
                return
            self._notices.popleft()

    @property
    def owes_signals(self) -> bool:
        """Whether signals are still being sent, or those of killed children are still to be."""
        children = self._pool.children.values()
        return bool(self._notices) or any(child.notices or child.queue for child in children)


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)
