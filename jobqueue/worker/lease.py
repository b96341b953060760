"""Keep this worker's leases alive, and notice when one is lost.

One thread renews every held lease in one statement, every third of a lease, on a connection of its own whose
statements end within a sixth of a lease. Each lease comes back renewed, locked by somebody's transaction (still ours)
or lost. A lease is counted from before the renewal was sent, by the boot clock: a worker that was suspended knows
that its leases have run out before anybody tells it. The same thread writes the worker's row, handlers' progress, and
what running attempts have cost so far.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import DatabaseError

from jobqueue.logs import Quietly
from jobqueue.managers import Renewal, leasing
from jobqueue.managers.sessions import Session

from .holding import Held, HeldJobs, boottime
from .orders import Mailbox
from .pricing import open_costs
from .registration import beat_interval
from .threads import Inbox

logger = logging.getLogger("jobqueue.worker")

TICK_SECONDS = 1.0


class Heartbeat(threading.Thread):
    """Renews leases and nothing else; what it learns goes to the main loop."""

    def __init__(
        self,
        session: Session,
        held: HeldJobs,
        inbox: Inbox,
        *,
        worker_id: str,
        lease: timedelta,
        beat: Callable[[Session], None],
        leave: Callable[[Session], None],
        heard: Callable[[list[tuple[Held, Renewal]]], None],
        mailbox: Mailbox,
    ) -> None:
        super().__init__(name="jobqueue-lease", daemon=True)
        self.session = session
        self._held, self._inbox, self._worker_id, self._lease = held, inbox, worker_id, lease
        self._beat, self._leave, self._heard, self._mailbox = beat, leave, heard, mailbox
        self._wake, self._ended = threading.Event(), threading.Event()
        self._renew_at = self._beat_at = self._orders_at = 0.0
        self._quietly = Quietly(logger)
        self.healthy_at = time.monotonic()
        self.deaf: Callable[[], bool] = lambda: True  # whether no hints come, so that cancels must be looked for

    def look_now(self) -> None:
        """Renew and read orders at once: somebody asked to cancel a job of this worker, or asked something of it."""
        self._renew_at = self._orders_at = 0.0
        self._wake.set()

    def look_soon(self) -> None:
        """Write what has been answered to orders."""
        self._wake.set()

    def end(self) -> None:
        """Have the thread end; its last word takes the worker's row away."""
        self._ended.set()
        self._wake.set()

    def run(self) -> None:
        """Beat until end()."""
        try:
            self._beat_on()
            if not self.session.away:
                self._mailbox.write(self.session.run)
                self._leave(self.session)
        except DatabaseError:
            logger.debug("worker row left behind worker=%s", self._worker_id)  # maintenance removes it
        finally:
            self.session.close()

    def _beat_on(self) -> None:
        self._renew_at = time.monotonic() + self._lease.total_seconds() / 3
        while not self._ended.is_set():
            self._wake.clear()
            began = time.monotonic()
            try:
                self._once()
                self.healthy_at = time.monotonic()
            except DatabaseError as error:
                self._renew_at = self._orders_at = 0.0
                self._quietly.warning(
                    "heartbeat failed worker=%s error=%s", self._worker_id, str(error).strip().split("\n")[0]
                )
                self.session.pause()
                continue
            self._wake.wait(max(0.1, began + TICK_SECONDS - time.monotonic()))

    def _once(self) -> None:
        now = time.monotonic()
        try:
            if now >= self._renew_at:
                self._renew_at = now + self._lease.total_seconds() / 3
                self._renew()
        finally:  # a table of jobs that is locked must not make the worker look dead
            if now >= self._beat_at:
                self._beat(self.session)
                self._beat_at = now + beat_interval(self._lease).total_seconds()
        if self.deaf():
            self._look_for_cancels()
        self._mailbox.write(self.session.run)
        if self.deaf() or now >= self._orders_at:
            self._orders_at = now + beat_interval(self._lease).total_seconds()
            self._mailbox.read(self.session.run)
        self._write_costs()
        progress = self._held.take_progress()
        if progress:
            leasing.write_progress(self.session.run, worker_id=self._worker_id, progress=progress)

    def _write_costs(self) -> None:
        """Write down what running attempts have cost by now: what stands there is charged if this worker is killed."""
        spent = [(held, costs) for held in self._held.all() if not held.ended and (costs := open_costs(held))]
        news = {held.fence: (held, costs) for held, costs in spent if costs != held.costs_written}
        if not news:
            return
        written = leasing.write_costs(
            self.session.run, worker_id=self._worker_id, costs={fence: costs for fence, (_, costs) in news.items()}
        )
        for held, costs in news.values():
            if held.job.id in written:  # else somebody has the row locked: the next beat tries again
                held.costs_written = costs

    def _look_for_cancels(self) -> None:
        """Ask for cancel requests: where no hint of them comes, they wait for no renewal."""
        held = {item.job.id: item for item in self._held.all() if not item.ended}
        asked = leasing.cancel_requests(self.session.run, ids=list(held)) if held else []
        if asked:
            news = [(held[job_id], Renewal(job_id, "locked", True)) for job_id in asked]
            self._inbox.put(lambda: self._heard(news))

    def _renew(self) -> None:
        held = self._held.all()
        if not held:
            return
        sent = boottime()
        renewals = leasing.renew(
            self.session.run,
            worker_id=self._worker_id,
            held=[(*item.fence, item.run_seconds() if item.started is not None else None) for item in held],
            lease=self._lease,
        )
        verdicts = {renewal.id: renewal for renewal in renewals}
        answers = [(item, verdicts[item.job.id]) for item in held if item.job.id in verdicts]
        for item, renewal in answers:
            if renewal.verdict == "renewed":
                item.lease_end = sent + self._lease.total_seconds()
            elif renewal.verdict == "locked":
                self._renew_at = time.monotonic() + TICK_SECONDS  # not extended: try again soon
        news = [(item, renewal) for item, renewal in answers if renewal.verdict == "lost" or renewal.cancel]
        if news:
            self._inbox.put(lambda: self._heard(news))
