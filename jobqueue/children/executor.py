"""Run one job's handler in this process: the one function behind the children, run_once() and the test kit.

The executor never decides what the database says; it turns whatever the handler does into a Done, an Ending or a
Release and hands it to `settle`, while the handler's exception is still being handled, so that a receiver of a signal
sees sys.exc_info(). The only broad `except` of the package is here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobqueue import signals, tracing
from jobqueue.backoff import Backoff
from jobqueue.conf import get_settings
from jobqueue.errors import describe
from jobqueue.exceptions import (
    Dead,
    Discard,
    HandlerImportError,
    JobCancelled,
    JobDeadlineExceeded,
    JobInterrupted,
    JobLeaseLost,
    ResultError,
    Retry,
    Snooze,
    UnknownJobType,
)
from jobqueue.handlers import Handler
from jobqueue.limits import check_input
from jobqueue.logs import CurrentJob, current_job
from jobqueue.managers import Done, Ending, Release
from jobqueue.outcomes import Outcome
from jobqueue.payloads import encode_result
from jobqueue.registry import registry
from jobqueue.states import Status

from .announcing import send_signal, signal_for
from .context import Context, Reporter

if TYPE_CHECKING:
    from .protocol import Work

logger = logging.getLogger("jobqueue.run")

# What json.loads() calls in the end: the payload is text that PostgreSQL wrote, with nothing before or behind it.
_decode = json.JSONDecoder().raw_decode

UNHEARD = 0  # no status has this number: a good end that nobody waits to hear of


class Executor:
    """Runs handlers for one worker.

    `settle` makes an end final and returns the job's status then, UNHEARD where a good end was handed over and no
    verdict is waited for, or None: refused, or nobody listens for it.
    `found` is told of a handler that was not known before: a task, imported by its path.
    `began` tells that the handler begins only now, where receivers were called before it.
    `guard` wraps the handler's call only: inside it, the run may be stopped.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        reporter: Reporter,
        settle: Callable[[Work, Done | Ending | Release | None], int | None],
        guard: Callable[[Work], AbstractContextManager[Any]] = lambda _: nullcontext(),
        began: Callable[[Work], None] = lambda _: None,
        found: Callable[[Work, Handler], None] = lambda *_: None,
        cpu_clock: Callable[[], float] = time.process_time,
        cpu_start: Callable[[], float] | None = None,
        run_coroutine: Callable[[Any], Any] = asyncio.run,
    ) -> None:
        self._worker_id, self._reporter, self._settle, self._guard = worker_id, reporter, settle, guard
        self._began, self._found = began, found
        self._cpu_clock, self._cpu_start, self._run_coroutine = cpu_clock, cpu_start or cpu_clock, run_coroutine

    def execute(self, work: Work) -> None:
        """Run one job to its end, settle it and tell the receivers."""
        token = current_job.set(CurrentJob(work.id, work.job_type, work.attempt, work.lease_epoch))
        run = _Run(work, self._worker_id, self._reporter, self._cpu_clock, self._cpu_start())
        try:
            if get_settings().TRACING:
                self._traced(run)
            else:
                self._attempt(run)
        finally:
            current_job.reset(token)

    def _traced(self, run: _Run) -> None:
        work = run.work
        with tracing.processing(
            work.job_type,
            work.queue,
            job_id=work.id,
            attempt=work.attempt,
            body_bytes=work.payload_bytes,
            worker_id=self._worker_id,
            traceparent=work.trace_context,
        ) as run.span:
            self._attempt(run)

    def _attempt(self, run: _Run) -> None:
        work = run.work
        try:
            payload = _decode(work.payload)[0]
            run.payload = payload if isinstance(payload, dict) else {}  # else the handler is told so, as an error
            known = registry.find_known(work.job_type)
            handler = run.handler = known or registry.resolve(work.job_type, payload)
            if known is None:
                self._found(work, handler)
            broken = check_input(handler.limits, handler.bounded(payload), work.payload_bytes)
            if broken is not None:
                self._end(run, run.over_input(broken))
                return
            if signals.job_started.receivers or handler.observer is not None:
                if handler.observer is not None:
                    handler.observer.started(run.context, payload)
                _send(signals.job_started, run)
                self._began(work)
            with self._guard(work):
                value = self._call(handler, run.context, payload)
            done = run.done(value)
        except BaseException as error:  # noqa: BLE001  (the one place: whatever a handler raises is its attempt's end)
            self._end(run, run.ended(error))
        else:
            self._end(run, done)

    def _call(self, handler: Handler, context: Context, payload: dict[str, Any]) -> Any:
        if handler.is_async:
            return self._run_coroutine(handler.func(context, **payload))
        return handler.func(context, **payload)

    def _end(self, run: _Run, end: Done | Ending | Release | None) -> None:
        # None: the lease was lost, and whoever has the job now tells how it ends.
        if run.span is not None:
            run.note_end(run.span, end)
        status = self._settle(run.work, end)
        if status == UNHEARD:
            tell_observer(run, Status.DONE)
        elif end is not None and status is not None:
            announce(run, end, status)


class _Run:
    """One attempt: its clocks, its costs, and how each kind of end is written down."""

    __slots__ = ("_cpu_clock", "_cpu_started", "_started", "context", "handler", "payload", "span", "work")

    def __init__(
        self, work: Work, worker_id: str, reporter: Reporter, cpu_clock: Callable[[], float], cpu_started: float
    ) -> None:
        self.work = work
        self.context = Context(work, worker_id, reporter, cpu_seconds=self._cpu_seconds)
        self.handler: Handler | None = None
        self.payload: dict[str, Any] = {}
        self.span: tracing.Processing | None = None
        self._cpu_clock, self._cpu_started, self._started = cpu_clock, cpu_started, time.monotonic()

    def _cpu_seconds(self) -> float:
        return max(0.0, self._cpu_clock() - self._cpu_started)

    def _figures(self) -> tuple[float, float]:
        return time.monotonic() - self._started, self._cpu_seconds()

    def done(self, value: Any) -> Done:
        """Return a good end. Raises ResultError when the result cannot be stored."""
        text = self.context.completed
        if text is None:
            text = encode_result(value, max_bytes=get_settings().RESULT_MAX_BYTES).text
            if type(value) is dict:
                self.context.add_result_cost(value)
        run_seconds, cpu_seconds = self._figures()
        work = self.work
        # Past the constructor, which takes as long as the two clocks.
        return tuple.__new__(
            Done, (work.id, work.lease_epoch, text, run_seconds, cpu_seconds, None, self.context.costs)
        )

    def note_end(self, span: tracing.Processing, end: Done | Ending | Release | None) -> None:
        """Tell the span how its attempt ended, while the handler's exception is still being handled."""
        error = sys.exception()
        if isinstance(end, Ending):
            span.ended(end.outcome, end.error_class, error)
        else:
            span.ended(Outcome.DONE if isinstance(end, Done) else None, None, None if end is not None else error)

    def over_input(self, broken: str) -> Ending:
        """Return the end of a job whose input is over a limit: dead at once, and people are told."""
        ending = self._ending(Outcome.INPUT_LIMIT, "dead")
        ending.error_class, ending.error_text, ending.fingerprint = (
            "jobqueue.exceptions.InputLimitExceeded",
            broken,
            "input-limit",
        )
        ending.limit_hit = True
        return ending

    def ended(self, error: BaseException) -> Ending | Release | None:
        """Return how an attempt ends that raised; None when its lease is lost."""
        if isinstance(error, Snooze):
            return Release(self.work.id, self.work.lease_epoch, error.delay, costs=self.context.costs)
        if isinstance(error, JobLeaseLost):
            return None
        if isinstance(error, Discard):
            ending = self._ending(Outcome.DISCARDED, "cancel")
        elif isinstance(error, Dead):
            ending = self._ending(Outcome.FAILED, "dead")
        elif isinstance(error, JobDeadlineExceeded):
            ending = self._ending(Outcome.DEADLINE, self.handler.on_deadline if self.handler else "retry")
            ending.limit_hit = True
        elif isinstance(error, JobCancelled):
            ending = self._ending(Outcome.CANCELLED, "cancel")
        elif isinstance(error, JobInterrupted):
            ending = self._ending(Outcome.INTERRUPTED, "interrupt")
        elif isinstance(error, UnknownJobType):
            ending = self._ending(Outcome.UNKNOWN_TYPE, "dead")
        else:
            handler = None if isinstance(error, Retry) else self.handler
            ending = self._ending(Outcome.FAILED, handler.on_error(self.payload) if handler else "retry")
            if isinstance(error, Retry) and error.delay is not None:
                ending.delay = error.delay  # a lower bound: no jitter may shorten what the other side asked for
        self._describe(ending, error)
        return ending

    def _ending(self, outcome: Outcome, step: str) -> Ending:
        run_seconds, cpu_seconds = self._figures()
        return Ending(
            self.work.id,
            self.work.lease_epoch,
            outcome,
            step,
            self._backoff(),
            run_seconds=run_seconds,
            cpu_seconds=cpu_seconds,
            costs=self.context.costs,
        )

    def _backoff(self) -> timedelta:
        settings = get_settings()
        plain = Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS)
        return (self.handler.backoff if self.handler else plain).delay(max(1, self.work.attempt))

    def _describe(self, ending: Ending, error: BaseException) -> None:
        described = describe(error, max_bytes=get_settings().ERROR_MAX_BYTES)
        ending.error_class, ending.error_text = described.error_class, described.text
        ending.traceback, ending.fingerprint = described.traceback, described.fingerprint
        if isinstance(error, SystemExit):
            ending.error_text = f"the handler called sys.exit({error.code!r:.200}): that is not a success"
        elif isinstance(error, HandlerImportError | ResultError):
            ending.traceback = ""  # the text tells it all: no frame of the project's is involved


def announce(run: _Run, end: Done | Ending | Release, status: int) -> None:
    """Send the signal that follows a verdict; a receiver that raises is logged once and changes nothing."""
    if status == Status.DONE:  # even where the handler failed after context.complete() was committed
        text = end.result if isinstance(end, Done) else run.context.completed
        _send(signals.job_done, run, result=json.loads(text or "null"))
    elif isinstance(end, Ending):
        name, arguments = signal_for(end, status)
        if name is not None:
            _send(getattr(signals, name), run, **arguments)
    tell_observer(run, status)


def tell_observer(run: _Run, status: int) -> None:
    """Tell whoever observes the handler's runs how this one ended; what it raises is logged and ends no slot."""
    if run.handler is not None and run.handler.observer is not None:
        try:
            run.handler.observer.ended(run.context, run.payload, status)
        except Exception:
            logger.exception("end not told job_id=%s type=%.63s", run.work.id, run.work.job_type)


def _send(signal: Any, run: _Run, **arguments: Any) -> None:
    work = run.work
    send_signal(
        signal,
        {"job_id": work.id, "job_type": work.job_type, "queue": work.queue, "attempt": work.attempt, **arguments},
        sender=run.handler.name if run.handler else work.job_type,
    )
