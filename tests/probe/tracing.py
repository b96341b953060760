"""Spans of a worker's processes, written to the file PROBE_TRACES as a project's own exporter would send them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

NEVER_BY_TIME_MILLISECONDS = 600_000


class FileExporter(SpanExporter):
    """Appends one JSON object a span."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans."""
        lines = [json.dumps(json.loads(span.to_json()) | {"pid": os.getpid()}) + "\n" for span in spans]
        with Path(self._path).open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        return SpanExportResult.SUCCESS


def trace_to_file(path: str) -> None:
    """Have spans exported when their process ends, and not before."""
    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(FileExporter(path), schedule_delay_millis=NEVER_BY_TIME_MILLISECONDS)
    )
    trace.set_tracer_provider(provider)
