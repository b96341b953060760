"""Enqueueing with tracing on: a producer's span, its traceparent in the row; and with tracing off: nothing at all."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from jobqueue import tracing
from jobqueue.exceptions import ConfigurationError
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.testing import run_once
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

EXPORTER = InMemorySpanExporter()
Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """Return the provider of this process; OpenTelemetry lets it be set once."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        made = TracerProvider()
        made.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(made)
    found = trace.get_tracer_provider()
    assert isinstance(found, TracerProvider)
    return found


@pytest.fixture
def spans(provider: TracerProvider, settings: Any) -> Iterator[Spans]:
    """Turn tracing on, and return the function that tells which spans have ended."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "TRACING": True}
    EXPORTER.clear()
    yield lambda: list(EXPORTER.get_finished_spans())
    EXPORTER.clear()


def traceparent(span: ReadableSpan) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{int(span.context.trace_flags):02x}"


def stored(job: Job | None) -> str | None:
    assert job is not None
    found = Job.objects.get(pk=job.pk).trace_context
    assert found == job.trace_context
    return found


def test_an_enqueue_is_a_producers_span_whose_traceparent_is_stored(spans: Spans) -> None:
    job = Job.objects.enqueue("probe.echo", {"value": 1}, queue="documents")

    [span] = spans()
    assert stored(job) == traceparent(span)
    assert (span.name, span.kind) == ("send probe.echo", SpanKind.PRODUCER)
    assert dict(span.attributes or {}) == {
        "messaging.system": "jobqueue",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "documents",
        "messaging.message.id": str(job.pk),
        "messaging.message.body.size": 12,
        "jobqueue.job.type": "probe.echo",
    }


def test_the_span_belongs_to_the_trace_of_the_request(spans: Spans, provider: TracerProvider) -> None:
    with provider.get_tracer("web").start_as_current_span("GET /upload") as request, transaction.atomic():
        job = Job.objects.enqueue("probe.ok", run_after=timedelta(hours=1))

    [sent] = [span for span in spans() if span.kind == SpanKind.PRODUCER]
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert stored(job) == traceparent(sent)


def test_a_held_key_sends_nothing_and_the_span_says_so(spans: Spans) -> None:
    Job.objects.enqueue("probe.ok", dedupe_key="k")

    assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None

    held = spans()[-1].attributes or {}
    assert held["jobqueue.job.key_held"] is True
    assert "messaging.message.id" not in held


def test_many_jobs_share_one_span(spans: Spans) -> None:
    jobs = Job.objects.enqueue_many(
        [("probe.ok", {}), {"job_type": "probe.echo", "dedupe_key": "k"}, {"job_type": "probe.ok", "queue": "mail"}]
    )

    [span] = spans()
    attributes = dict(span.attributes or {})
    assert {stored(job) for job in jobs} == {traceparent(span)}
    assert (span.name, attributes["messaging.batch.message_count"]) == ("send jobs", 3)
    assert "messaging.destination.name" not in attributes


def test_an_enqueue_that_fails_is_an_error_of_its_span(spans: Spans) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job RENAME TO elsewhere")
    try:
        with pytest.raises(Exception, match="jobqueue_job"):
            Job.objects.enqueue("probe.ok")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO jobqueue_job")

    assert spans()[0].status.status_code == StatusCode.ERROR


def test_a_span_that_is_not_sampled_leaves_no_trace_and_costs_no_round_trip(
    spans: Spans, provider: TracerProvider, django_assert_num_queries: Any
) -> None:
    """A link to it would lead nowhere; the enqueue stays the one call of the procedure."""
    with trace.use_span(TracerProvider(sampler=ALWAYS_OFF).get_tracer("web").start_span("request")):
        with django_assert_num_queries(1):
            job = Job.objects.enqueue("probe.ok")

    assert stored(job) is None


def test_without_tracing_nothing_is_stored_and_nothing_is_asked(
    provider: TracerProvider, django_assert_num_queries: Any
) -> None:
    EXPORTER.clear()
    with provider.get_tracer("web").start_as_current_span("request"), django_assert_num_queries(1):
        job = Job.objects.enqueue("probe.ok")

    assert stored(job) is None
    assert [span.name for span in EXPORTER.get_finished_spans()] == ["request"]


def test_without_tracing_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import django; django.setup(); import sys\n"
        "from jobqueue.models import Job; import jobqueue.children.child, jobqueue.worker.supervisor\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    command = [sys.executable, "-c", code]
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings", "DATABASE_URL": "postgresql://nobody@127.0.0.1/none"}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_run_is_a_span_of_its_own_trace_linked_to_the_enqueue(spans: Spans) -> None:
    job = Job.objects.enqueue("probe.echo", {"value": 1})
    assert job is not None

    run_once()

    sent, run = spans()
    assert (run.name, run.kind, run.parent) == ("process probe.echo", SpanKind.CONSUMER, None)
    assert [link.context.span_id for link in run.links] == [sent.context.span_id]
    assert run.context.trace_id != sent.context.trace_id
    assert dict(run.attributes or {}) == {
        "messaging.system": "jobqueue",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(job.pk),
        "messaging.message.body.size": 12,
        "messaging.client.id": "run_once",
        "jobqueue.job.type": "probe.echo",
        "jobqueue.job.attempt": 1,
        "jobqueue.job.outcome": "done",
    }
    assert run.status.status_code == StatusCode.UNSET


@pytest.mark.parametrize(
    ("name", "payload", "outcome", "error_type"),
    [
        ("boom", {"text": "no"}, "failed", "RuntimeError"),
        ("snooze", {"delay": 60}, "snoozed", None),
        ("discard", {"reason": "gone"}, "discarded", None),
    ],
)
def test_the_span_tells_how_the_attempt_ended(
    spans: Spans, name: str, payload: dict[str, Any], outcome: str, error_type: str | None
) -> None:
    Job.objects.enqueue(f"probe.{name}", payload)

    run_once()

    run = spans()[-1]
    attributes = dict(run.attributes or {})
    assert attributes["jobqueue.job.outcome"] == outcome
    assert attributes.get("error.type") == error_type
    assert run.status.status_code == (StatusCode.ERROR if error_type else StatusCode.UNSET)
    assert [event.name for event in run.events] == (["exception"] if error_type else [])


@pytest.mark.parametrize(
    "value", ["", "00-00000000000000000000000000000000-0000000000000000-01", "written by hand", None]
)
def test_what_is_no_traceparent_gives_no_link(provider: TracerProvider, value: str | None) -> None:
    assert tracing.links_to(value) == []


def test_a_lost_lease_is_an_error(spans: Spans) -> None:
    with tracing.processing(
        "probe.ok", "default", job_id=1, attempt=1, body_bytes=2, worker_id="w", traceparent=None
    ) as span:
        span.ended(None, None, RuntimeError("lost"))
    with tracing.processing(
        "probe.ok", "default", job_id=1, attempt=1, body_bytes=2, worker_id="w", traceparent=None
    ) as span:
        span.ended(Outcome.DEADLINE, None, None)

    assert [(run.attributes or {})["error.type"] for run in spans()] == ["lease_lost", "deadline"]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "TRACING": True}
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing._api.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match=r"pip install 'jobqueue\[otel\]'"):
            Job.objects.enqueue("probe.ok")
        assert not tracing.is_installed()
    finally:
        tracing._api.cache_clear()

    assert not Job.objects.exists()
