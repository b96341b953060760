"""The real thing beside the model: two connections of Django's own, and one reading of all tables in a statement."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction

from .jobs import SECOND, TIMES

LOCK_TIMEOUT = "25ms"  # nobody gives way meanwhile: the other side is idle, so longer would only cost time

PLAIN = (
    "id job_type queue priority status max_attempts dedupe_key owner attempts interruptions worker_id lease_epoch "
    "progress open_costs result outcome last_error error_class"
).split()
_TIMES = ", ".join(f"(extract(epoch FROM {name}) * {SECOND})::bigint AS {name}" for name in TIMES)
READ = f"""
SELECT (extract(epoch FROM statement_timestamp()) * {SECOND})::bigint,
       (SELECT json_agg(row_to_json(job)) FROM (
            SELECT {", ".join(PLAIN)}, {_TIMES}, payload,
                   (cost_total * 100)::bigint AS cost_total, (cost_last * 100)::bigint AS cost_last
              FROM jobqueue_job ORDER BY id) AS job),
       (SELECT json_agg(json_build_array(job_id, lease_epoch, number, worker_id, outcome, error_class, error_text,
                                         (cost * 100)::bigint) ORDER BY job_id, lease_epoch)
          FROM jobqueue_attempt),
       (SELECT json_agg(stat) FROM (
            SELECT json_build_array(queue, job_type, outcome, sum(jobs), sum(dead)) AS stat
              FROM jobqueue_stat GROUP BY queue, job_type, outcome) AS stats),
       (SELECT json_agg(cost) FROM (
            SELECT json_build_array(queue, job_type, component, (sum(amount) * 100)::bigint) AS cost
              FROM jobqueue_cost GROUP BY queue, job_type, component) AS costs),
       (SELECT json_agg(json_build_array(actor, action, reason, job_ids) ORDER BY id) FROM jobqueue_action)
"""
PASS_TIME = f"""
WITH aged AS (UPDATE jobqueue_stat SET at = at - %(by)s::interval),
     dearer AS (UPDATE jobqueue_cost SET at = at - %(by)s::interval)
UPDATE jobqueue_job SET {", ".join(f"{name} = {name} - %(by)s::interval" for name in TIMES)}
"""
TABLES = "jobqueue_job jobqueue_attempt jobqueue_stat jobqueue_cost jobqueue_action".split()


@dataclass
class Reading:
    """Everything that one connection sees, and the server's time then, in microseconds."""

    at: int
    jobs: dict[int, dict[str, Any]]
    attempts: dict[int, list[tuple[Any, ...]]]
    counts: dict[tuple[str, str, int], int]
    dead: dict[tuple[str, str, int], int]
    costs: dict[tuple[str, str, str], int]
    actions: list[tuple[Any, ...]]


def read() -> Reading:
    """Read all tables at once, on the calling thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute(READ)
        at, jobs, attempts, stats, costs, actions = cursor.fetchone()
    runs: dict[int, list[tuple[Any, ...]]] = {}
    for job_id, *run in _rows(attempts):
        runs.setdefault(job_id, []).append(tuple(run))
    stats = _rows(stats)
    return Reading(
        at,
        {job["id"]: job for job in _rows(jobs)},
        runs,
        {(queue, job_type, outcome): jobs for queue, job_type, outcome, jobs, _ in stats},
        {(queue, job_type, outcome): dead for queue, job_type, outcome, _, dead in stats if dead},
        {(queue, job_type, component): amount for queue, job_type, component, amount in _rows(costs)},
        [(actor, action, reason, tuple(ids)) for actor, action, reason, ids in _rows(actions)],
    )


def _rows(found: Any) -> list[Any]:
    rows: list[Any] = json.loads(found) if isinstance(found, str) else found or []
    return rows


def prepare(lock_timeout: str) -> int:
    """Set the calling thread's connection up; return the process that serves it."""
    with connection.cursor() as cursor:
        # Nothing here outlives a crash of the server, and a flush a step would be most of the time.
        cursor.execute(f"SET lock_timeout = '{lock_timeout}'; SET synchronous_commit = off")
        cursor.execute("SELECT pg_backend_pid()")
        pid: int = cursor.fetchone()[0]
    return pid


class Side:
    """One of the two connections: a thread of its own, since Django's connections belong to threads."""

    def __init__(self, lock_timeout: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="side")
        self._lock_timeout = lock_timeout
        self._block: transaction.Atomic | None = None
        self.pid: int = self._thread.submit(prepare, lock_timeout).result(10)

    def call(self, verb: Callable[[], Any]) -> Any:
        """Call a verb on this connection; in an open transaction within a savepoint, which an error undoes."""
        return self.start(verb).result(30)

    def start(self, verb: Callable[[], Any]) -> Future[Any]:
        """Call a verb that may have to wait."""
        return self._thread.submit(self._call, verb)

    def _call(self, verb: Callable[[], Any]) -> Any:
        if self._block is None:
            return verb()
        with transaction.atomic():
            return verb()

    def begin(self) -> None:
        self._block = transaction.atomic()
        self._thread.submit(self._block.__enter__).result(10)

    def end(self, *, commit: bool) -> None:
        """End the open transaction, if there is one."""
        if self._block is not None:
            self._thread.submit(self._end, commit).result(10)
            self._block = None

    def _end(self, commit: bool) -> None:
        assert self._block is not None
        if not commit:
            transaction.set_rollback(True)
        self._block.__exit__(None, None, None)

    def lose(self) -> None:
        """Have the server end this connection, with whatever it has not committed; the next verb has a new one."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [self.pid])
        self.pid = self._thread.submit(self._reconnect).result(10)

    def _reconnect(self) -> int:
        if self._block is not None:
            lost = OperationalError("the server has ended the connection")
            self._block.__exit__(OperationalError, lost, None)
        self._block = None
        connection.close()
        return prepare(self._lock_timeout)

    def close(self) -> None:
        self.end(commit=False)
        self._thread.submit(lambda: connection.close()).result(10)  # named there: here it would be this thread's
        self._thread.shutdown()


class Arena:
    """Two sides on one database, and the test's own connection, which reads what is committed."""

    def __init__(self, lock_timeout: str = LOCK_TIMEOUT) -> None:
        self.sides = [Side(lock_timeout), Side(lock_timeout)]
        # A vacuum that cuts off empty pages locks the table for longer than a side would wait.
        self._set("vacuum_truncate = off", "SET synchronous_commit = off")

    def clean(self) -> None:
        """Empty the tables: an example costs two milliseconds so, a TRUNCATE of them fifty."""
        for side in self.sides:
            side.end(commit=False)
        with connection.cursor() as cursor:
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in TABLES))

    def pass_time(self, seconds: int) -> None:
        """Let the rows grow older: to each of them it is as if so much time had passed."""
        with connection.cursor() as cursor:
            cursor.execute(PASS_TIME, {"by": f"{seconds} seconds"})

    def close(self) -> None:
        for side in self.sides:
            side.close()
        self._set("vacuum_truncate = on", "RESET synchronous_commit")

    @staticmethod
    def _set(storage: str, session: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("; ".join([session, *(f"ALTER TABLE {table} SET ({storage})" for table in TABLES)]))
