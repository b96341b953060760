"""Receivers of the tasks API's signals that write down what they see, in a worker that is told to have them."""

from __future__ import annotations

import os
import sys
from typing import Any

import psycopg

from jobqueue.backends.compat import TaskResult, task_finished, task_started


def record(event: str, sender: type, task_result: TaskResult[Any]) -> None:
    """Write down who was told of what, and the row as it is committed by then."""
    handled = sys.exc_info()[1]
    attempts, errors = task_result.attempts, len(task_result.errors)
    with psycopg.connect(os.environ["PROBE_DSN"], autocommit=True, application_name="probe") as connection:
        row = connection.execute("SELECT status FROM jobqueue_job WHERE id = %s", [task_result.id]).fetchone()
        detail = f"{sender.__name__} {task_result.status} {row and row[0]} {attempts} {errors} {handled!r}"
        connection.execute(
            "INSERT INTO probe_effect (job_id, attempt, lease_epoch, pid, event, detail)"
            " VALUES (%s, %s, 0, %s, %s, %s)",
            [task_result.id, attempts, os.getpid(), event, detail],
        )


def on_started(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
    """Record task_started."""
    record("task_started", sender, task_result)


def on_finished(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
    """Record task_finished."""
    record("task_finished", sender, task_result)


def connect() -> None:
    """Connect both, where PROBE_RECEIVERS says so."""
    if os.environ.get("PROBE_RECEIVERS") == "tasks":
        task_started.connect(on_started)
        task_finished.connect(on_finished)
