"""The supervisor: one main loop that owns all state, and threads that only talk to the database for it.

    dispatch    claims, hands out            1 connection
    settle      ends attempts, in batches    1 connection   (apart from the claims, so that both overlap)
    lease       renews, beats                1 connection
    maintenance promotes, reaps, prunes      1 connection
    listener    LISTEN; only a hint          1 connection

It runs no user code and never forks: the zygote does. See docs/worker.md.
"""

from __future__ import annotations

import gc
import logging
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING

from jobqueue import tracing
from jobqueue.children.launcher import Launcher
from jobqueue.children.processes import trim_memory
from jobqueue.conf import get_settings
from jobqueue.listener import Listener
from jobqueue.maintenance.loop import Maintenance
from jobqueue.managers.rows import Run
from jobqueue.managers.sessions import BY_KEY, PLANNED_EACH, PLANNED_ONCE, Session
from jobqueue.registry import from_policies, registry
from jobqueue.signals import worker_started, worker_stopped

from .births import Births
from .dispatch import Dispatch
from .holding import Held, HeldJobs
from .lease import Heartbeat
from .options import WorkerOptions
from .orders import Orders
from .own import Hands, OwnSlot
from .pool import Child, Pool
from .registration import Registration, check_job_types, home_queues
from .reports import Reports
from .settle import Settler
from .shutdown import GRACEFUL, Shutdown
from .stops import Stops
from .threads import DatabaseThread, Inbox, LineBudget
from .verdicts import Verdicts

if TYPE_CHECKING:
    from .monitor import Monitor

logger = logging.getLogger("jobqueue.worker")

LONGEST_WAIT = 1.0
WATCH_SECONDS = 1.0
STALL_SECONDS = 1.0
END_SECONDS = 0.5
TRIM_SECONDS = 2.0
GARBAGE_OBJECTS = 50_000  # Python's own 700 cost a tenth of the supervisor's time
LOG_LINES_A_SECOND = 45  # with the worker's own lines at most 50


class Supervisor:
    """One boot of a worker. run() returns the exit code: 0 stopped as asked, 3 jobs were cut off."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        ready: Callable[[Run], object] = lambda run: run("SELECT 1", {}),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`ready` asks the database, before anything is written, and raises where nothing must be."""
        self.options = options
        self.settings = get_settings().changed(LEASE_SECONDS=options.lease.total_seconds())
        self._ready, self._show = ready, progress
        self.inbox, self.held, self._ending = Inbox(), HeldJobs(), threading.Event()
        self.plan = options.plan()
        # What is left of a lease that was to be renewed just now, less the margin.
        patience = options.lease * 2 / 3 - self.settings.lease_margin
        self.launcher = Launcher(options.worker_id, patience=patience.total_seconds())
        self.pool = Pool(self.launcher, processes=options.processes, threads=options.threads)
        self.registration = Registration(options, self.pool.slots, self.plan.registered(), lambda: len(self.held))
        commit = {"synchronous_commit": "off"} if self.settings.ASYNC_CLAIMS else {}
        claiming = BY_KEY | PLANNED_ONCE | commit
        self.claimer = DatabaseThread("dispatch", self._session("dispatch", options=claiming), self.inbox)
        self.settling = DatabaseThread("settle", self._session("settle", options=BY_KEY | PLANNED_EACH), self.inbox)
        self.reports = Reports(self.pool, self.held, limit=LineBudget(LOG_LINES_A_SECOND))
        self.stops = Stops(self.pool, self.held, self.settings)
        self.verdicts = Verdicts(self)
        self.settler = Settler(self.settling, self.held, worker_id=options.worker_id, verdicts=self.verdicts)
        self.hands = Hands.make(self.pool, self.held, self.settler, began=self._began, reserved=self.plan.reserved)
        self.settler.mean_seconds = lambda: self.hands.common.mean_seconds
        self.own = OwnSlot(self.pool, self.hands.own, options)
        self.dispatch = self._make_dispatch()
        self.dispatch.budget = options.max_jobs
        self.reports.settler, self.reports.hands, self.reports.stops = self.settler, self.hands, self.stops
        self.stops.put_back = self.hands.put_back
        self.orders = Orders(self)
        self.heartbeat = self._make_heartbeat()
        self.listener: Listener | None = None
        self.maintenance: Maintenance | None = None
        self.shutdown, self.births = Shutdown(self), Births(self)
        self.registration.watch(self)
        self.selector = selectors.DefaultSelector()
        self._watch_at = self._show_at = self._trim_at = self._wait = 0.0
        self.looked_at: float | None = None  # monotonic: when the main loop last went round
        self.monitor: Monitor | None = None

    def _make_dispatch(self) -> Dispatch:
        return Dispatch(
            self.claimer,
            plan=self.plan,
            hands=self.hands.common,
            own=self.own,
            held=self.held,
            settler=self.settler,
            settings=self.settings,
            worker_id=self.options.worker_id,
            lease=self.options.lease,
            poll=self.options.poll,
            mark_idle=self._mark_idle,
        )

    def _make_heartbeat(self) -> Heartbeat:
        timeout = max(timedelta(seconds=0.5), self.options.lease / 6 - timedelta(milliseconds=100))
        return Heartbeat(
            self._session("lease", timeout, options=BY_KEY | PLANNED_EACH),
            self.held,
            self.inbox,
            worker_id=self.options.worker_id,
            lease=self.options.lease,
            beat=self.registration.beat,
            leave=self.registration.leave,
            heard=self.verdicts.heard,
            mailbox=self.orders.mailbox,
        )

    def _began(self, held: Held) -> None:
        self.stops.began(held, time.monotonic())

    def _session(
        self, role: str, timeout: timedelta | None = None, *, options: Mapping[str, str] | None = None
    ) -> Session:
        name, timeout = f"jobqueue {role} {self.options.worker_id}", timeout or self.settings.statement_timeout
        return Session(self.options.alias, name, timeout=timeout, wake=self._ending, options=options)

    # -- life -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until stopped, drained, or at the end of what was asked for."""
        sys.setswitchinterval(0.0005)  # a thread whose answer has come must not wait long for its turn
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._on_signal)
        if self.monitor is not None:
            self.monitor.start()
        code = 1
        try:
            code = self._loop() if self._start() else GRACEFUL
        finally:
            self._close(code)
        return code

    def _start(self) -> bool:
        """Get everything going. Returns False when a signal to stop came first."""
        if not self.launcher.start(stopped=self._is_asked):
            return False
        self.read_policies()
        session = self.heartbeat.session
        if not self.registration.register(session, self.dispatch.policies, ready=self._ready, stopped=self._is_asked):
            return False
        self.selector.register(self.inbox.read_fd, selectors.EVENT_READ, None)
        self.births.listen_to_zygote()
        for thread in (self.claimer, self.settling, self.heartbeat):
            thread.start()
        if self.settings.NOTIFY:
            self.listener = Listener(self.options.alias, self.options.worker_id, hint=self._hint)
            self.dispatch.hears = lambda: self.listener is not None and self.listener.heard_itself
            self.heartbeat.deaf = lambda: not self.dispatch.hears()
            self.listener.start()
        if self.options.maintenance:
            self.maintenance = Maintenance(
                self.options.alias,
                self.options.worker_id,
                lease=self.options.lease,
                woke=self._hint,
                home_queue=self._home_queue,
            )
            self.dispatch.after_hints = self.maintenance.look_now
            self.maintenance.start()
        worker_started.send_robust(sender=None, worker_id=self.options.worker_id)
        logger.info(
            "worker started worker=%s queues=%s processes=%s threads=%s lease=%s",
            *(self.options.worker_id, ",".join(self.plan.registered()), self.options.processes, self.options.threads),
            self.options.lease,
        )
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)  # what comes and goes by the thousand a second here has no cycles
        trim_memory()
        return True

    def _is_asked(self) -> bool:
        return self.shutdown.asked

    def read_policies(self) -> None:
        """Take the policy table of a zygote that has just started."""
        table = self.launcher.policies
        self.reports.receivers = set(table.pop("receivers", ()))
        self.own.heard = "worker_heartbeat" in self.reports.receivers
        self.stops.hears_begin = "job_started" in self.reports.receivers
        self.dispatch.policies = registry.told = policies = from_policies(table)
        self.reports.learn = policies.learn
        for module, text in policies.failed.items():
            logger.error("handlers not imported module=%s error=%s", module, text.strip().split("\n")[-1])
        check_job_types(self.options, policies)
        if self.options.job_types:
            self.plan.named, self.plan.every = home_queues(self.options.job_types, policies), False
            self.registration.queues = self.plan.registered()

    def _loop(self) -> int:
        started = self.looked_at = time.monotonic()
        while True:
            now = time.monotonic()
            self.births.fill(now)
            self.hands.pump(now)
            self.dispatch.pump(now)
            self.settler.pump(nothing_runs=self._nothing_runs())
            if (
                self.options.max_seconds is not None
                and now - started > self.options.max_seconds
                and not self._is_asked()
            ):
                self.shutdown.ask()
            code = self.shutdown.step(now)
            if code is not None:
                return code
            self._report_progress(now)
            if gather := self.hands.common.gather_seconds():
                time.sleep(gather)  # many reports are read as cheaply as one
            self._wait = self._timeout(time.monotonic())
            events = self.selector.select(self._wait)
            self._allow_for_a_stall(time.monotonic())
            self._read(events)
            self._check(time.monotonic())

    def _allow_for_a_stall(self, now: float) -> None:
        """Move the deadlines when this process was stopped or starved: no job is late for that."""
        lag = now - (self.looked_at or now) - self._wait
        if lag > STALL_SECONDS:  # told before anything is checked: the first look would find phantom time-outs
            self.stops.shift(lag)
        self.looked_at = now

    def _read(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        now = time.monotonic()
        for key, _ in events:
            if isinstance(key.data, Child):
                self.reports.read(key.data, now)
            elif key.data is None:
                self.inbox.run_all()
        if any(key.data is self.launcher for key, _ in events):  # after the frames: a child's last words come first
            self.births.hear_zygote(now)

    def _check(self, now: float) -> None:
        self.stops.check(now)
        self.orders.stacks.check(now)
        self.reports.send_notices()
        self.own.check(now, stopping=self.shutdown.stopping)
        for child in list(self.pool.children.values()):
            if child.retiring and not child.queue:
                child.close_inbox()
        for child in self.pool.due(self.settings.CHILD_MAX_JOBS):
            self.hands.put_back_retired(child)
        if now >= self._watch_at:
            self._watch_at = now + WATCH_SECONDS
            for session in self._sessions():
                session.abort_if_unanswered()
            self._check_threads()
            self.launcher.say_alive()

    def _check_threads(self) -> None:
        """Raise when a thread has died of an error of ours (on standard error): half a worker is worse than none."""
        dead = [thread.name for thread in self._threads() if not thread.is_alive()]
        if dead:
            msg = f"the worker ends, its threads died: {', '.join(dead)}; its jobs come back when their leases run out"
            raise RuntimeError(msg)

    def _threads(self) -> list[DatabaseThread | Heartbeat | Listener | Maintenance]:
        others = [thread for thread in (self.listener, self.maintenance) if thread is not None]
        return [self.claimer, self.settling, self.heartbeat, *others]

    def _sessions(self) -> list[Session]:
        return [thread.session for thread in self._threads()]

    def _timeout(self, now: float) -> float:
        times = [
            self.hands.next_at(now),
            self.dispatch.next_at(now),
            self.settler.next_at(),
            self.stops.next_at(now),
            self.orders.stacks.next_at(now),
            self.shutdown.next_at(),
            self.births.next_at(now),
        ]
        return max(0.0, min([LONGEST_WAIT, *(when - now for when in times if when is not None)]))

    def _nothing_runs(self) -> bool:
        return not self.hands.waiting and not any(
            len(child.queue) > child.awaiting for child in self.pool.children.values()
        )

    # -- from other threads ---------------------------------------------------------------------------------------

    def _home_queue(self, job_type: str) -> str | None:
        """Return the queue that a type is declared for; the table of policies comes with the zygote, and anew."""
        return self.dispatch.policies.home_queue(job_type)

    def _hint(self, queue: str | None, cancels: bool = False) -> None:
        """Take a hint from the listener or from maintenance, on their threads."""
        if cancels:
            self.heartbeat.look_now()
        else:
            self.inbox.put(lambda: self._take_hint(queue))

    def _take_hint(self, queue: str | None) -> None:
        self.dispatch.wake([queue] if queue else ())
        self.dispatch.pump(time.monotonic())  # not only when the main loop comes to it: somebody waits

    def _mark_idle(self, idle: bool) -> None:
        now = time.monotonic()
        if idle and now >= self._trim_at:
            self._trim_at = now + TRIM_SECONDS
            trim_memory()

        def mark() -> None:
            self.registration.mark(self.claimer.session, idle=idle)

        def marked(_result: object, error: Exception | None) -> None:
            if error is not None:
                self.dispatch.forget_mark()

        self.claimer.submit(mark, marked)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.shutdown.ask()
        if number == signal.SIGQUIT:
            self.shutdown.ask()  # at once
        self.inbox.wake()

    # -- end ------------------------------------------------------------------------------------------------------

    def _close(self, code: int) -> None:
        if self.settings.TRACING:
            self.births.let_children_end(tracing.FLUSH_SECONDS + END_SECONDS)
        self.launcher.stop()
        self._ending.set()
        threads = [thread for thread in self._threads() if thread.is_alive()]
        for thread in threads:
            thread.end()
        last = time.monotonic() + END_SECONDS
        for thread in threads:
            thread.join(max(0.0, last - time.monotonic()))
            if thread.is_alive():  # the database does not answer: it gets no more time than that
                thread.session.abort()
        worker_stopped.send_robust(sender=None, worker_id=self.options.worker_id, exit_code=code)
        logger.info("worker stopped worker=%s exit_code=%s jobs=%s", self.options.worker_id, code, self.reports.ended)

    def _report_progress(self, now: float) -> None:
        if self._show is not None and now >= self._show_at:
            self._show_at = now + 0.5
            self._show(self.reports.ended, len(self.held))
