"""Traces of a real worker: spans made in its children, linked to those of the enqueues, none lost at a good end."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from jobqueue.models import Job
from jobqueue.states import Status

from .kinds import Enqueue, Launch, WaitFor

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def traced(job: Job) -> Job:
    Job.objects.filter(pk=job.pk).update(trace_context=PARENT)
    return job


@pytest.mark.parametrize("threads", ["1", "3"])
def test_each_run_is_a_span_linked_to_its_enqueue(
    launch: Launch, enqueue: Enqueue, tmp_path: Path, threads: str
) -> None:
    """The exporter would send nothing by itself for ten minutes: what is there was flushed by the children's end."""
    path = tmp_path / "spans"
    jobs = [traced(enqueue("ok", _queue="documents")) for _ in range(5)]
    large = traced(enqueue("echo", value="x" * 100_000))
    plain = enqueue("boom", text="no")

    worker = launch(
        "--drain", "--threads", threads, wait=False, TRACING="on", env={"PROBE_TRACES": str(path)}, MAX_ATTEMPTS=1
    )
    assert worker.ends() == 0

    found = {span["attributes"]["messaging.message.id"]: span for span in spans_in(path)}
    for job in (*jobs, large):
        span = found[str(job.pk)]
        assert [(link["context"]["trace_id"], link["context"]["span_id"]) for link in span["links"]] == [
            ("0x0af7651916cd43dd8448eb211c80319c", "0xb7ad6b7169203331")
        ]
        assert span["attributes"]["messaging.client.id"] == Job.objects.get(pk=job.pk).worker_id
    assert found[str(jobs[0].pk)]["attributes"]["messaging.destination.name"] == "documents"
    failed = found[str(plain.pk)]
    assert (failed["links"], failed["status"]["status_code"]) == ([], "ERROR")
    assert failed["attributes"]["error.type"] == "RuntimeError"
    assert not {span["pid"] for span in found.values()} & {worker.pid}


def test_a_stop_loses_no_span(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, tmp_path: Path) -> None:
    path = tmp_path / "spans"
    worker = launch(TRACING="on", env={"PROBE_TRACES": str(path)})
    jobs = [enqueue("ok") for _ in range(4)]
    for job in jobs:
        wait_for(job)
    assert spans_in(path) == []

    worker.stop(signal.SIGTERM)
    assert worker.ends() == 0

    assert {span["attributes"]["messaging.message.id"] for span in spans_in(path)} == {str(job.pk) for job in jobs}


def test_a_trace_context_written_by_hand_stops_no_job(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, tmp_path: Path
) -> None:
    jobs = [enqueue("ok") for _ in range(3)]
    for job, text in zip(jobs, ["é" * 300, "00-nothing", "x" * 100_000], strict=True):
        Job.objects.filter(pk=job.pk).update(trace_context=text)
    launch(TRACING="on", env={"PROBE_TRACES": str(tmp_path / "spans")})

    assert {wait_for(job).status for job in jobs} == {Status.DONE}


def test_without_tracing_a_stored_context_changes_nothing(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    job = traced(enqueue("ok"))
    launch()

    assert wait_for(job).trace_context == PARENT
