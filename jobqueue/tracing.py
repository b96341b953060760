"""OpenTelemetry, where JOBQUEUE["TRACING"] is on: a span at enqueue, and a span at each run that is linked to it.

The span's W3C traceparent is stored with the job. A run is a trace of its own that is linked to the producer's, not a
child of its span: a job may run days later, or several times. Attributes follow the messaging semantic conventions.
Nothing here runs, and nothing of OpenTelemetry is imported, while the setting is off. See docs/tracing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from .exceptions import ConfigurationError
from .outcomes import Outcome

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span

SYSTEM: Final = "jobqueue"
FLUSH_SECONDS: Final = 2.0
# What people or the handler itself ended on purpose, and what is not over yet, is no error.
NO_ERRORS: Final = frozenset({"done", "snoozed", "discarded", "cancelled"})


class Sending:
    """A producer's span while its jobs are inserted; `traceparent` is what to store with them, None for nothing."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span, self.traceparent = span, _traceparent(span)

    def sent(self, job_id: int | None) -> None:
        """Note the id of the new job; None: an active one holds its key, nothing was sent."""
        if job_id is None:
            self._span.set_attribute("jobqueue.job.key_held", True)
        else:
            self._span.set_attribute("messaging.message.id", str(job_id))


@contextmanager
def sending(job_type: str, queue: str, *, body_bytes: int) -> Iterator[Sending]:
    """Enqueue one job within a span `send <job type>`. Raises ConfigurationError where OpenTelemetry is missing."""
    attributes = {
        **_attributes("send", job_type, queue),
        "messaging.message.body.size": body_bytes,
    }
    with _producer(f"send {job_type}", attributes) as span:
        yield Sending(span)


@contextmanager
def sending_many(job_types: set[str], queues: set[str], *, count: int) -> Iterator[Sending]:
    """Enqueue many jobs within one span, whose name has the job type only where they share one."""
    job_type = next(iter(job_types)) if len(job_types) == 1 else None
    queue = next(iter(queues)) if len(queues) == 1 else None
    attributes = {**_attributes("send", job_type, queue), "messaging.batch.message_count": count}
    with _producer(f"send {job_type or 'jobs'}", attributes) as span:
        yield Sending(span)


@contextmanager
def _producer(name: str, attributes: dict[str, Any]) -> Iterator[Span]:
    trace = _api()
    with _tracer().start_as_current_span(name, kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        yield span


class Processing:
    """A consumer's span while a handler runs."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome | None, error_class: str | None, error: BaseException | None) -> None:
        """Note how the attempt ended; outcome None without an error is a snooze, with one a lost lease."""
        word = _word(outcome, error)
        self._span.set_attribute("jobqueue.job.outcome", word)
        if word in NO_ERRORS:
            return
        trace = _api()
        if error is not None:
            self._span.record_exception(error)
        self._span.set_attribute("error.type", error_class or word)
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, word))


@contextmanager
def processing(
    job_type: str, queue: str, *, job_id: int, attempt: int, body_bytes: int, worker_id: str, traceparent: str | None
) -> Iterator[Processing]:
    """Run one attempt within a span `process <job type>`, a trace of its own linked to the span that enqueued it."""
    trace = _api()
    span = _tracer().start_as_current_span(
        f"process {job_type}",
        context=_no_context(),
        kind=trace.SpanKind.CONSUMER,
        links=links_to(traceparent),
        attributes={
            **_attributes("process", job_type, queue),
            "messaging.message.id": str(job_id),
            "messaging.message.body.size": body_bytes,
            "messaging.client.id": worker_id,
            "jobqueue.job.attempt": attempt,
        },
        record_exception=False,
        set_status_on_exception=False,
    )
    with span as current:
        yield Processing(current)


def links_to(traceparent: str | None) -> list[Link]:
    """Return the link to the span that a stored traceparent names; none for what is no traceparent."""
    if not traceparent:
        return []
    trace = _api()
    context = _propagator().extract({"traceparent": traceparent})
    found = trace.get_current_span(context).get_span_context()
    return [trace.Link(found)] if found.is_valid else []


def flush() -> None:
    """Have the spans of this process exported: a child's last ones would end with it."""
    provider = _api().get_tracer_provider()
    force = getattr(provider, "force_flush", None)  # the API's own provider, which keeps nothing, has none
    if force is not None:
        force(int(FLUSH_SECONDS * 1000))


def is_installed() -> bool:
    """Tell whether OpenTelemetry's API can be imported."""
    try:
        _api()
    except ConfigurationError:
        return False
    return True


def _word(outcome: Outcome | None, error: BaseException | None) -> str:
    if outcome is not None:
        return outcome.name.lower()
    return "snoozed" if error is None else "lease_lost"


def _attributes(operation: str, job_type: str | None, queue: str | None) -> dict[str, Any]:
    found = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "jobqueue.job.type": job_type,
    }
    return {name: value for name, value in found.items() if value is not None}


def _traceparent(span: Span) -> str | None:
    """Return what names a span to others; None for one that is not recorded: a link to it would lead nowhere."""
    trace = _api()
    if not span.get_span_context().trace_flags.sampled:
        return None
    carrier: dict[str, str] = {}
    _propagator().inject(carrier, context=trace.set_span_in_context(span))
    return carrier.get("traceparent")


@cache
def _api() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415
    except ImportError as error:
        msg = "JOBQUEUE['TRACING'] needs OpenTelemetry: pip install 'jobqueue[otel]'"
        raise ConfigurationError(msg) from error
    return trace


def _tracer() -> Any:
    # Not kept: a tracer of before the project has set its provider up would stay one that records nothing.
    return _api().get_tracer("jobqueue")


@cache
def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    return TraceContextTextMapPropagator()


def _no_context() -> Any:
    from opentelemetry.context import Context  # noqa: PLC0415

    return Context()
