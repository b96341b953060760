"""Our backend under the kit: in the kit's own process; with real workers by `make test-conformance`."""

import subprocess
import sys
from pathlib import Path

import pytest

from .kit import kit

OURS = "jobqueue.backends.JobQueueBackend"
WORKER = "manage.py runworker --queues * --processes 1"
#: What asks for a process that can be killed, and what is for backends that cannot do all.
WITHOUT_A_WORKER = {
    "a_killed_worker_leaves_nothing_running",
    "a_stopped_worker_leaves_nothing_running",
    "a_task_that_is_killed_does_not_stay_running",
    "a_task_that_leaves_its_process_does_not_stay_running",
    "what_is_not_supported_is_refused",
}


def test_our_backend_keeps_the_contract() -> None:
    found = kit(OURS, "--tasks-settings=project.settings", "--tasks-drain=python:jobqueue.testing.drain")[OURS]

    assert found["failed"] == []
    assert set(found["skipped"]) == WITHOUT_A_WORKER
    assert len(found["passed"]) > 50


@pytest.mark.conformance
def test_our_backend_keeps_the_contract_with_real_workers() -> None:
    arguments = ("--tasks-settings=project.settings", f"--tasks-drain={WORKER}", "--tasks-crash-bound=60")
    found = kit(OURS, *arguments, JOBQUEUE_LEASE_SECONDS="10")[OURS]

    assert found["failed"] == []
    assert found["skipped"] == ["what_is_not_supported_is_refused"]


def test_plain_pytest_runs_the_kit_beside_pytest_django_and_writes_the_table(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    arguments = [
        *(
            "--pyargs",
            "jobqueue.testing.conformance",
            "-p",
            "jobqueue.testing.conformance.plugin",
            "-p",
            "no:cacheprovider",
        ),
        *(f"--tasks-backend={OURS}", "--tasks-drain=python:jobqueue.testing.drain", f"--tasks-report={table}"),
        *("-k", "returned or a_failed_result"),
    ]

    ran = subprocess.run([sys.executable, "-m", "pytest", *arguments], capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout
    assert "| `a_failed_result_tells_all` | After an error: FAILED" in table.read_text()
