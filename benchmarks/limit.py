"""The limit: what the server itself does with the same rows, in bare SQL by psycopg, without any of the product.

The table is a copy of the product's, with all of its columns, indexes and storage parameters, so that the ratio says
what the product's own work costs and not what its columns cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from .database import Connection
from .jobs import NOTHING, payload

TABLE = "limit_job"
WORKER = "limit"
# Those of the product's own statements: insert_due_job, and copy_jobs, which has no keys.
COLUMNS = "job_type, queue, priority, payload, payload_bytes, owner, max_attempts"

CLAIM = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM {TABLE} WHERE queue = 'default' AND status = 1
     ORDER BY priority, run_after, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE {TABLE} AS job
   SET status = 2, worker_id = %s, lease_epoch = job.lease_epoch + 1, attempts = job.attempts + 1,
       lease_until = statement_timestamp() + interval '120 s', claimed_at = statement_timestamp(),
       updated_at = statement_timestamp()
  FROM due
 WHERE job.id = due.id AND job.status + 0 = 1
RETURNING job.id, job.lease_epoch, job.job_type, job.payload::text, job.attempts
"""
SETTLE = f"""
UPDATE {TABLE} AS job
   SET status = 3, outcome = 1, result = given.result::jsonb, lease_until = NULL,
       finished_at = statement_timestamp(), updated_at = statement_timestamp()
  FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS given (id, lease_epoch, result)
 WHERE job.id = given.id AND job.lease_epoch = given.lease_epoch AND job.worker_id = %s AND job.status + 0 = 2
RETURNING job.id
"""
INSERT = f"INSERT INTO {TABLE} ({COLUMNS}, dedupe_key) VALUES (%s, %s, %s, %s, %s, %s, %s, NULL)"
COPY = f"COPY {TABLE} (id, {COLUMNS}, status, run_after) FROM STDIN"


def make_table(connection: Connection) -> None:
    """Make the table anew, empty."""
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    connection.execute(f"CREATE TABLE {TABLE} (LIKE jobqueue_job INCLUDING ALL)")
    row = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'jobqueue_job'::regclass").fetchone()
    if row and row[0]:
        connection.execute(f"ALTER TABLE {TABLE} SET ({', '.join(row[0])})")


def fill(connection: Connection, jobs: int) -> None:
    """Insert so many due no-ops, with the payloads that the product's jobs have."""
    connection.execute(
        f"INSERT INTO {TABLE} ({COLUMNS}) SELECT job_type, queue, priority, payload, payload_bytes, owner, max_attempts"
        " FROM jobqueue_job ORDER BY id LIMIT %s",
        [jobs],
    )


def drain(connection: Connection, jobs: int, *, batch: int) -> float:
    """Claim and settle all jobs by batches on one connection. Returns jobs a second.

    Raises AssertionError unless each job was claimed and settled once.
    """
    cursor, seen, settled = connection.cursor(), set[int](), 0
    began = time.perf_counter()
    while rows := cursor.execute(CLAIM, [batch, WORKER]).fetchall():
        ids = [row[0] for row in rows]
        seen.update(ids)
        settled += len(cursor.execute(SETTLE, [ids, [row[1] for row in rows], ["null"] * len(ids), WORKER]).fetchall())
    seconds = time.perf_counter() - began
    assert len(seen) == settled == jobs, f"the raw loop settled {settled} of {jobs} jobs"
    return jobs / seconds


def row(number: int) -> tuple[Any, ...]:
    """Return the values of COLUMNS for one no-op."""
    text = json.dumps(payload(number))
    return (NOTHING, "default", 100, text, len(text), "", 3)


def copy_rows(start: int, count: int) -> list[tuple[Any, ...]]:
    """Return rows of (id, *COLUMNS, status, run_after), with ids from `start` on."""
    now = datetime.now(UTC)
    return [(number, *row(number), 1, now) for number in range(start, start + count)]


def copy(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write copy_rows() by COPY, in one transaction."""
    with connection.cursor().copy(COPY) as stream:
        for values in rows:
            stream.write_row(values)
