"""project.documents.jobs: the handlers, called with a real context on jobs that were really claimed."""

import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from django.db.models.query import QuerySet
from PIL import Image

from jobqueue import Discard
from jobqueue.exceptions import LeaseLost
from jobqueue.limits import MB, check_input
from jobqueue.models import Cost, Job
from jobqueue.registry import registry
from jobqueue.states import Status
from project.demo.processes import free_port
from project.documents.collecting import index_jobs
from project.documents.models import Document
from project.partner import Partner
from project.samples import LOG_BYTES, Samples

from .conftest import Run

Claimed = Callable[..., Run]


def indexing(claimed: Claimed, path: Path) -> Run:
    """Return a claimed documents.index job for the file."""
    [item] = index_jobs([path])
    return claimed("documents.index", **item["payload"])


def test_indexing_stores_the_document_and_finishes_the_job_in_one_transaction(
    claimed: Claimed, samples: Samples
) -> None:
    run = indexing(claimed, samples.folder / "reports" / "report-03.pdf")

    result = run.call()

    document = Document.objects.get(path=run.job.payload["path"])
    job = Job.objects.get(pk=run.job.pk)
    assert (job.status, job.result) == (Status.DONE, result)
    assert (document.job_id, document.sha256, document.pages) == (job.pk, result["sha256"], result["pages"])


def test_indexing_reports_progress_and_what_it_cost(claimed: Claimed, samples: Samples) -> None:
    run = indexing(claimed, samples.folder / "reports" / "report-03.pdf")

    pages = run.call()["pages"]

    costs = {line.component: line.amount for line in run.reports.costs}
    assert costs["pages"] == Decimal("0.0004") * pages
    assert costs["storage"] > 0
    assert run.reports.percents[-1] == 95
    assert Job.objects.get(pk=run.job.pk).cost_total == sum(costs.values())
    assert Cost.objects.count() == 2


def test_indexing_again_replaces_the_document(claimed: Claimed, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    indexing(claimed, path).call()
    path.write_text("one two")

    run = indexing(claimed, path)
    run.call()

    document = Document.objects.get()
    assert (document.words, document.job_id) == (2, run.job.pk)


def test_a_run_that_lost_its_lease_stores_nothing(claimed: Claimed, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    run = indexing(claimed, path)
    rows: QuerySet[Job] = QuerySet(Job)
    rows.filter(pk=run.job.pk).update(worker_id="worker-2", lease_epoch=2)

    with pytest.raises(LeaseLost):
        run.call()

    assert not Document.objects.exists()
    assert Job.objects.get(pk=run.job.pk).status == Status.RUNNING


def test_a_file_that_was_deleted_meanwhile_is_discarded(claimed: Claimed, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    run = indexing(claimed, path)
    path.unlink()

    with pytest.raises(Discard, match="deleted"):
        run.call()


def test_a_picture_is_stored_with_its_thumbnail(claimed: Claimed, samples: Samples) -> None:
    run = indexing(claimed, samples.folder / "pictures" / "picture-02.gif")

    run.call()

    document = Document.objects.get()
    assert document.kind == Document.Kind.IMAGE
    assert bytes(document.thumbnail or b"").startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "field"), [("thick", "page_count"), ("log", "size_bytes")])
def test_oversized_documents_break_an_input_limit(samples: Samples, name: str, field: str) -> None:
    [item] = index_jobs([getattr(samples, name)])

    broken = check_input(registry.get("documents.index").limits, item["payload"], 100)

    assert broken is not None
    assert broken.startswith(f"payload field {field} is")


def test_the_map_is_small_on_the_disk_and_decodes_beyond_the_memory_limit(samples: Samples) -> None:
    limit = registry.get("documents.index").limits.memory_bytes
    assert limit is not None
    guard = Image.MAX_IMAGE_PIXELS
    with pytest.warns(Image.DecompressionBombWarning), Image.open(samples.map) as image:
        decoded_bytes = image.width * image.height * 4

    assert samples.map.stat().st_size < 2 * MB
    assert decoded_bytes > 2 * limit
    # Else Pillow would refuse it, and no memory limit would be seen at work.
    assert guard is not None
    assert decoded_bytes / 4 < 2 * guard


def test_the_log_is_over_the_size_limit(samples: Samples) -> None:
    assert samples.log.stat().st_size >= LOG_BYTES


def test_a_search_returns_where_the_phrase_is(claimed: Claimed, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Permission is hereby granted")

    result = claimed("documents.search", path=str(path), phrase="PERMISION").call()

    assert result == {"phrase": "PERMISION", "errors": 1, "end": 10}


def test_the_partner_is_told_once_however_often_the_job_runs(claimed: Claimed, partner: Partner, settings: Any) -> None:
    settings.PARTNER_URL = f"http://127.0.0.1:{partner.server_port}/notifications"
    run = claimed("partner.notify", event="received", path="a.pdf")

    receipts = [run.call()["receipt"], run.call()["receipt"]]

    assert receipts == [1, 1]
    assert partner.count() == 1


def test_a_partner_that_is_down_fails_the_attempt(claimed: Claimed, settings: Any) -> None:
    settings.PARTNER_URL = f"http://127.0.0.1:{free_port(0, 0)}/notifications"
    run = claimed("partner.notify", event="received", path="a.pdf")

    with pytest.raises(httpx.ConnectError):
        run.call()


def test_the_native_crash_ends_its_process_by_a_signal(samples: Samples) -> None:
    code = (
        "import sys, types, django; django.setup();"
        "from project.documents.jobs import crash_natively;"
        "context = types.SimpleNamespace(progress=lambda *_: None);"
        "crash_natively(context, path=sys.argv[1])"
    )
    url = "postgresql://nobody@127.0.0.1/none"  # nothing asks the database

    done = subprocess.run(
        [sys.executable, "-c", code, samples.good[0]],
        env={"DJANGO_SETTINGS_MODULE": "project.settings", "DATABASE_URL": url, "PYTHONPATH": "."},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )

    assert done.returncode == -signal.SIGSEGV, done.stderr.decode()


def test_every_handler_of_the_documents_is_found() -> None:
    assert {"documents.index", "documents.search", "documents.native_crash", "partner.notify"} <= set(registry.names())
    assert connection.vendor == "postgresql"
