"""A child: takes one job after another from its inbox, runs the handler, reports, and can be asked to stop it.

The supervisor asks by a message on the control socket and a signal; the signal's handler raises the matching
JobStopped inside the handler. If that does not end it within KILL_GRACE, the zygote kills the child. With one slot
handlers run in the main thread; with several, each slot is a thread and async handlers share one event loop.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import ctypes
import json
import logging
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any

from jobqueue import signals, tracing
from jobqueue.conf import get_settings
from jobqueue.exceptions import JobCancelled, JobDeadlineExceeded, JobInterrupted, JobLeaseLost, JobStopped
from jobqueue.gauges import Measure, carry_by
from jobqueue.managers import CostLine, Done, Ending, Release
from jobqueue.outcomes import Outcome
from jobqueue.registry import registry

from . import stacks
from .announcing import has_receivers, send_signal
from .connections import drop_dead_connections, tidy_connections
from .coroutines import SharedLoop, run_alone
from .executor import UNHEARD, Executor
from .processes import CpuClock, Offspring, adopt_orphans, die_with_parent, end_descendants
from .protocol import (
    CANCEL,
    DEADLINE,
    INTERRUPT,
    LEASE_LOST,
    MESSAGE_BYTES,
    STOP_SIGNAL,
    Notice,
    Work,
    frame,
    frame_for,
    receive_message,
)

logger = logging.getLogger("jobqueue.run")

STOPS: dict[str, type[JobStopped]] = {
    DEADLINE: JobDeadlineExceeded,
    CANCEL: JobCancelled,
    INTERRUPT: JobInterrupted,
    LEASE_LOST: JobLeaseLost,
}


class Child:
    """Serves one inbox until the supervisor closes it."""

    def __init__(
        self, *, worker_id: str, slots: int, sockets: tuple[socket.socket, socket.socket, socket.socket], memory: int
    ) -> None:
        self._inbox, self._results, self._control = sockets
        self._memory = memory
        self._control.setblocking(False)
        self._slots = slots
        self._send_lock = threading.Lock()
        self._armed: dict[tuple[int, int], int] = {}  # the runs that may be stopped now, and their threads
        self._stopped: dict[tuple[int, int], str] = {}  # those of them that are to stop, and why
        self._told: set[tuple[int, int]] = set()  # those that have been told; once: clean-up is not interrupted again
        # Reentrant: with one slot the stop signal may find its own thread inside.
        self._stop_lock = threading.RLock()
        self._verdicts: dict[tuple[int, int], int] = {}
        self._announcing: set[tuple[int, int]] = set()  # those whose receivers are called before the slot is free
        self._forked = self._has_lost_threads = False
        self._threads = 0  # how many there were when the handler began, where there is one slot
        self._buffer = bytearray(MESSAGE_BYTES)
        self._loop = SharedLoop()
        self._clock, self._offspring = CpuClock(), Offspring()
        self._executor = Executor(
            worker_id=worker_id,
            reporter=self,
            settle=self._settle,
            guard=partial(_Guard, self),
            began=lambda work: self._send(frame("B", work[:2])),
            found=lambda work, handler: self._send(frame("Q", work[:2], json.dumps(handler.policy().to_json()))),
            cpu_clock=time.thread_time if slots > 1 else self._clock.read,
            cpu_start=time.thread_time if slots > 1 else self._clock.start,
            run_coroutine=self._run_on_loop if slots > 1 else run_alone,
        )
        # A handler that forks and returns in both processes must not have two of them serve this inbox.
        os.register_at_fork(after_in_child=self._note_fork)
        signal.signal(STOP_SIGNAL, self._on_stop_signal)
        stacks.listen(memory, lambda *_: self._read_control(), shared=slots > 1)
        sys.unraisablehook = self._on_unraisable
        carry_by(self._measure)

    def serve(self) -> None:
        """Run jobs until the supervisor closes the inbox."""
        if self._slots > 1:
            self._serve_threads()
            return
        while (item := receive_message(self._inbox, buffer=self._buffer)) is not None:
            self._run(item)

    def _serve_threads(self) -> None:
        free = threading.Semaphore(self._slots)
        jobs: queue.SimpleQueue[Work | Notice] = queue.SimpleQueue()

        def slot() -> None:
            while True:
                item = jobs.get()
                try:
                    self._run(item)
                except (BrokenPipeError, ConnectionResetError):
                    os._exit(0)  # the supervisor is gone, and so is any use of this process
                finally:
                    free.release()

        for number in range(self._slots):
            threading.Thread(target=slot, name=f"jobqueue-slot-{number}", daemon=True).start()
        free.acquire()  # a job leaves the inbox only when a slot is free: until then it can be taken back
        while (item := receive_message(self._inbox, buffer=self._buffer)) is not None:
            jobs.put(item)
            free.acquire()
        for _ in range(self._slots - 1):  # the process ends with this thread, and would cut off what the others run
            free.acquire()

    def _run(self, item: Work | Notice) -> None:
        if isinstance(item, Notice):
            self._send_notice(item)
            return
        drop_dead_connections()
        key, began = item[:2], time.monotonic()
        try:
            self._executor.execute(item)
        finally:
            if key in self._announcing:
                self._announcing.discard(key)
                self._send(frame("A", key))
            if key in self._armed:  # the order to stop came in the moment between the handler's end and disarm()
                self.disarm(key)
            if self._slots == 1:
                signal.alarm(0)  # one that a handler set and forgot would end the next job
            tidy_connections()
            if self._offspring.any(after=time.monotonic() - began):
                self._clear_leftovers(item)
            if self._has_lost_threads:
                self._send(frame("T", key))

    def _send_notice(self, notice: Notice) -> None:
        """Send a worker's heartbeat, or the signal of a job whose own child was killed, as every receiver knows it."""
        arguments = dict(notice.arguments)
        if "delay" in arguments:
            arguments["delay"] = timedelta(seconds=arguments["delay"])
        if "outcome" in arguments:
            arguments["outcome"] = Outcome(arguments["outcome"])
        drop_dead_connections()
        try:
            send_signal(getattr(signals, notice.signal), arguments, sender=arguments.get("job_type"))
            if registry.task_source is not None and notice.signal in ("job_dead", "job_cancelled"):
                text = arguments.get("error_text") or arguments.get("reason") or ""
                registry.task_source.ended(arguments["job_id"], arguments.get("error_class") or "", text)
        except Exception:  # else this slot would end with it: the row cannot be read, or the task not be imported
            logger.exception("end not told job_id=%s", arguments.get("job_id"))
        finally:
            tidy_connections()
            self._send(frame("S", (0, 0)))

    # -- what the executor reports --------------------------------------------------------------------------------

    def cost(self, work: Work, line: CostLine) -> None:
        """Send an amount at once: it counts even if this process is killed."""
        value = [line.component, line.unit, str(line.amount)]
        self._send(frame("C", work[:2], json.dumps(value)))

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Send how far the handler is."""
        self._send(frame("P", work[:2], json.dumps(value)))

    def _measure(self, measure: Measure) -> None:
        """Send what a handler or a receiver measured or counted, from whatever thread of this process."""
        self._send(frame("M", (0, 0), json.dumps(measure)))

    def cancelled(self, work: Work) -> bool:
        """Tell whether this run was asked to stop."""
        self._read_control()
        return work[:2] in self._stopped

    def _settle(self, work: Work, end: Done | Ending | Release | None) -> int | None:
        if self._forked:
            os._exit(0)
        if end is None:
            self._send(frame("X", work[:2]))
            return None
        waits = _is_awaited(end, work.job_type)
        self._send(frame_for(end, waits=waits))
        if not waits:
            return UNHEARD if isinstance(end, Done) else None
        key = work[:2]
        self._announcing.add(key)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while key not in self._verdicts:
            poll.poll(50)  # short: the stop signal's handler may have read the verdict
            self._read_control()
        status = self._verdicts.pop(key)
        return status or None

    def _send(self, data: bytes) -> None:
        with self._send_lock:
            self._results.sendall(data)

    # -- being stopped --------------------------------------------------------------------------------------------

    def arm(self, key: tuple[int, int]) -> None:
        """Let a run be stopped from here on, in this thread."""
        ident = threading.get_ident()
        self._threads = _thread._count()
        self._armed[key] = ident  # last: from now on the order may be raised here

    def disarm(self, key: tuple[int, int]) -> str | None:
        """Stop it no more; returns why it was to be stopped, None where it was not."""
        with self._stop_lock:
            reason = self._stopped.pop(key, None)  # first: the signal's handler forgets those that are not armed
            self._armed.pop(key, None)
            if self._slots > 1:  # what was sent to this thread a moment ago must not hit its next job
                _raise_in(threading.get_ident(), None)
        if key in self._told:
            self._told.discard(key)
            # A thread that the stop did not reach runs on: only the end of the process ends it.
            self._has_lost_threads = self._slots == 1 and _thread._count() > self._threads
        return reason

    def _on_stop_signal(self, *_: object) -> None:
        self._read_control()
        with self._stop_lock:
            for key, reason in list(self._stopped.items()):
                ident = self._armed.get(key)
                if ident is None:
                    self._stopped.pop(key, None)  # it ended meanwhile
                elif key not in self._told:
                    self._told.add(key)
                    if ident == threading.main_thread().ident:
                        raise STOPS[reason](_stop_text(reason))
                    if not self._loop.cancel(key):
                        _raise_in(ident, STOPS[reason])

    def _on_unraisable(self, found: sys.UnraisableHookArgs) -> None:
        """Forget an order to stop that Python swallowed, in a destructor or a hook of os.fork(): another follows."""
        if isinstance(found.exc_value, JobStopped):
            ident = threading.get_ident()
            self._told -= {key for key, thread in list(self._armed.items()) if thread == ident}
        else:
            sys.__unraisablehook__(found)

    def _read_control(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self._control.recv(4096)
                if not data:
                    os._exit(0)  # the supervisor is gone
                kind, job_id, epoch, word = data.decode().split("\t")
                key = (int(job_id), int(epoch))
                if kind == "verdict":
                    self._verdicts[key] = int(word)
                elif kind == "stack":
                    self._show_stack(key)
                elif key in self._armed:
                    self._stopped[key] = word

    def _show_stack(self, key: tuple[int, int]) -> None:
        """Write where a run is; one that has ended, or is not in its handler's call, is left to the other way."""
        ident = self._armed.get(key)
        if ident is not None:
            stacks.write(self._memory, key, ident, self._loop.coroutine(key), shared=self._slots > 1)

    def _run_on_loop(self, coroutine: Any) -> Any:
        """Run a coroutine on the event loop that the slots share."""
        ident = threading.get_ident()
        key = next(key for key, thread in list(self._armed.items()) if thread == ident)
        return self._loop.run(key, coroutine)

    # -- leftovers ------------------------------------------------------------------------------------------------

    def _note_fork(self) -> None:
        self._forked = True
        carry_by(None)  # a second writer would cut into the frames of the first

    def _clear_leftovers(self, work: Work) -> None:
        """Kill what the handler started and left running, however it got away."""
        if self._slots > 1 and len(self._armed):
            self._send(frame("T", work[:2]))  # whose they are cannot be told
        else:
            end_descendants()


class _Guard:
    """Around a handler's call: inside it the run may be stopped. A generator would cost each job a microsecond more."""

    __slots__ = ("_child", "_key")

    def __init__(self, child: Child, work: Work) -> None:
        self._child, self._key = child, work[:2]

    def __enter__(self) -> None:
        self._child.arm(self._key)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        reason = self._child.disarm(self._key)
        if reason is not None and isinstance(error, asyncio.CancelledError):
            raise STOPS[reason](_stop_text(reason)) from None


def _raise_in(ident: int, error: type[JobStopped] | None) -> None:
    """Have an exception raised in another thread at its next step; None takes back one not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error) if error else None)


def _stop_text(reason: str) -> str:
    return {
        DEADLINE: "the job ran longer than its deadline",
        CANCEL: "the job was cancelled",
        INTERRUPT: "the worker is stopping",
        LEASE_LOST: "the job's lease was lost",
    }[reason]


def _is_awaited(end: Done | Ending | Release, sender: str) -> bool:
    """Tell whether a receiver waits for the signal that follows this end."""
    if isinstance(end, Release):
        return False
    if registry.task_source is None and isinstance(end, Done) and not signals.job_done.receivers:
        return False  # of nearly all jobs: only tasks have observers
    handler = registry.find_known(sender)
    observer = None if handler is None else handler.observer
    if observer is not None and (not isinstance(end, Done) or observer.awaits_success()):
        return True
    if isinstance(end, Done):
        return has_receivers(signals.job_done, sender)
    return any(has_receivers(one, sender) for one in (signals.job_retrying, signals.job_dead, signals.job_cancelled))


def main(
    *,
    key: str,
    worker_id: str,
    slots: int,
    zygote: int,
    sockets: tuple[socket.socket, socket.socket, socket.socket],
    memory: int,
) -> None:
    """Be a child, in a process that the zygote has just forked; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        die_with_parent(zygote)
        adopt_orphans()  # so that whatever a handler leaves is found below this process
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # Not SIG_IGN: programs that a handler starts would inherit that, and could not be terminated.
            signal.signal(number, lambda *_: None)
        Child(worker_id=worker_id, slots=slots, sockets=sockets, memory=memory).serve()
        code = 0
    except (BrokenPipeError, ConnectionResetError):
        code = 0  # the supervisor is gone, and so is any use of this process
    finally:
        with contextlib.suppress(Exception):
            if get_settings().TRACING:
                tracing.flush()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
