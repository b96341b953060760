"""Fill the tables: through the public API where jobs are to be run, by SQL where they only have to lie there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from .database import Connection, connect, empty, settle_down
from .jobs import NOTHING, PAUSE, payload

CHUNK = 100_000
BATCH = 1_000  # what a worker settles at once
MILLIONS = 1_000_000  # from so many rows on, two sessions insert them

SCHEDULED: Final = """
INSERT INTO jobqueue_job (job_type, status, payload, payload_bytes, run_after)
SELECT %s, 5, jsonb_build_object('number', n, 'text', %s::text), 80,
       statement_timestamp() + make_interval(hours => 1, secs => n)
  FROM generate_series(1, %s) AS n
"""
FINISHED: Final = """
INSERT INTO jobqueue_job (job_type, payload, payload_bytes, run_after)
SELECT %s, jsonb_build_object('number', n, 'text', %s::text), 80,
       statement_timestamp() - make_interval(days => 1, secs => n / 100.0)
  FROM generate_series(%s, 1, -1) AS n
"""
# Then claimed and settled, a batch at a time, as work does it. Rows inserted as finished ones would fill each page
# alike and leave room for one claimed row there, as in no table that is worked: each would go to another page.
WORKED: Final = """
DO $$
DECLARE
    first bigint;
    last bigint;
BEGIN
    SELECT min(id), max(id) INTO first, last FROM jobqueue_job WHERE status = 1 AND mod(id / {batch}, 2) = {half};
    first := first / {batch} * {batch};
    WHILE first <= last LOOP
        UPDATE jobqueue_job
           SET status = 2, worker_id = 'earlier', lease_epoch = 1, attempts = 1, lease_until = run_after,
               claimed_at = run_after
         WHERE id >= first AND id < first + {batch} AND status = 1;
        COMMIT;
        UPDATE jobqueue_job
           SET status = 3, lease_until = NULL, run_started_at = run_after, first_started_at = run_after,
               finished_at = run_after, result = 'null', outcome = 1
         WHERE id >= first AND id < first + {batch} AND status = 2;
        COMMIT;
        first := first + 2 * {batch};
    END LOOP;
END $$
"""
DEAD: Final = """
INSERT INTO jobqueue_job (job_type, status, payload, payload_bytes, run_after, attempts, worker_id, lease_epoch,
                          claimed_at, finished_at, outcome, last_error, error_class, fingerprint)
SELECT %s, 4, jsonb_build_object('number', n, 'text', %s::text), 80, at, 3, 'earlier', 3, at, at, 2,
       'the partner did not answer', 'builtins.OSError', md5((n %% 200)::text)
  FROM (SELECT n, statement_timestamp() - make_interval(days => 1, secs => n) AS at
          FROM generate_series(%s, 1, -1) AS n) AS past
"""
DUE: Final = """
INSERT INTO jobqueue_job (job_type, payload, payload_bytes)
SELECT %s, jsonb_build_object('number', n, 'text', %s::text), 80 FROM generate_series(1, %s) AS n
"""
DUE_AGAIN: Final = """
INSERT INTO jobqueue_job (job_type, payload, payload_bytes)
SELECT job.job_type, job.payload, job.payload_bytes
  FROM generate_series(1, %(jobs)s) AS n, (SELECT * FROM jobqueue_job WHERE status = 1 LIMIT 1) AS job
"""


def enqueue(connection: Connection, jobs: int) -> None:
    """Empty the tables and enqueue no-ops, numbered from 0, through the public API."""
    from jobqueue.models import Job

    empty(connection)
    for start in range(0, jobs, CHUNK):
        Job.objects.enqueue_many([(NOTHING, payload(number)) for number in range(start, min(start + CHUNK, jobs))])
    settle_down(connection)


def enqueue_pauses(jobs: int, seconds: float) -> None:
    """Enqueue jobs that keep slots taken and come before all others."""
    from jobqueue.models import Job

    Job.objects.enqueue_many([{"job_type": PAUSE, "payload": {"seconds": seconds}, "priority": 1} for _ in range(jobs)])


def fill(connection: Connection, rows: dict[str, int]) -> None:
    """Insert so many rows by each of the statements above, in that order, vacuuming after each.

    Wide rows should come first: each full page of theirs has room for one short row more, which vacuum makes known. Due
    rows that took it would lie on a page each, as they never do in a table that is worked.
    """
    for statement, count in rows.items():
        if count < MILLIONS:
            _insert(connection, statement, count)
        else:
            _insert_side_by_side(connection.info.dbname, statement, count)
        if statement == FINISHED:
            _work_off(connection.info.dbname)
        settle_down(connection)


def _work_off(name: str) -> None:
    """Claim and settle what is due, by two sessions, each every second batch."""
    with connect(name) as one, connect(name) as other, ThreadPoolExecutor(2) as pool:
        works = [
            pool.submit(session.execute, WORKED.format(batch=BATCH, half=half).encode())
            for half, session in enumerate((one, other))
        ]
        for work in works:
            work.result()


def _insert_side_by_side(name: str, statement: str, count: int) -> None:
    """Insert by two sessions, since one keeps only one core busy."""
    with connect(name) as one, connect(name) as other, ThreadPoolExecutor(2) as pool:
        halves = [(one, count // 2), (other, count - count // 2)]
        list(pool.map(lambda half: _insert(half[0], statement, half[1]), halves))


def _insert(connection: Connection, statement: str, count: int) -> None:
    connection.execute(statement, [NOTHING, payload(0)["text"], count])
