"""Write down what handlers really did, through a connection of their own that no worker and no Django knows of.

The table is `probe_effect` (tests/worker/conftest.py); PROBE_DSN says where it is.
"""

import os
import threading
from typing import Any

import psycopg

_connections: dict[int, "psycopg.Connection[Any]"] = {}
_lock = threading.Lock()  # fifty threads that begin at once share one connection


def record(context: Any, event: str, detail: object = "") -> None:
    """Insert one row: which run, which process, what."""
    pid = os.getpid()
    with _lock:
        if pid not in _connections or _connections[pid].closed:
            _connections[pid] = psycopg.connect(os.environ["PROBE_DSN"], autocommit=True, application_name="probe")
    _connections[pid].execute(
        "INSERT INTO probe_effect (job_id, attempt, lease_epoch, pid, event, detail) VALUES (%s, %s, %s, %s, %s, %s)",
        [context.job_id, context.attempt, context.lease_epoch, pid, event, str(detail)],
    )
