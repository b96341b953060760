"""What a million jobs a day cost a server: WAL, transactions, rows and bytes, by counting what some thousands do.

    python -m benchmarks.measures.capacity [--jobs 3500] [--json]

It starts a server of its own, since WAL is counted by the whole server, and measures no times: bytes, rows and
transactions are the same on a busy machine. docs/capacity.md has what came of it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import database
from benchmarks.database import Connection

MILLION = 1_000_000
PACE = 60.0  # jobs a second: far enough apart that a settle has one job, as at a million a day
IDLE_SECONDS = 20.0
REPORT_SECONDS = 10.5  # after which a session that idles has told the server's statistics what it did
TEXT_BYTES = 300
SIZES = """
SELECT sum(pg_table_size(oid)) FILTER (WHERE relname = 'jobqueue_job'),
       sum(pg_indexes_size(oid)) FILTER (WHERE relname = 'jobqueue_job'),
       sum(pg_total_relation_size(oid)) FILTER (WHERE relname <> 'jobqueue_job')
  FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobqueue_%'
"""
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobqueue_%' ORDER BY relname"
OF_WORKERS = "application_name ~ '^jobqueue ' AND pid <> pg_backend_pid()"
SETTLED = "SELECT count(*) FILTER (WHERE status = 3) = %s AND count(*) FILTER (WHERE status IN (1, 2, 5)) = 0"


@dataclass(frozen=True)
class Cost:
    """What one phase cost, for a million jobs (`idle`: an hour of one idle worker)."""

    phase: str
    wal_bytes: int
    full_pages: int
    transactions: int
    rows_written: int  # inserted, updated and deleted, of all our tables
    hot_updates: int


class Meter:
    """Counts what a server does meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.found: list[Cost] = []

    @contextmanager
    def phase(self, name: str, *, per: float) -> Iterator[None]:
        """Count what happens within; `per` is what it is multiplied by."""
        self._connection.execute("CHECKPOINT", prepare=False)
        before = self._look()
        yield
        time.sleep(REPORT_SECONDS)
        spent = [round((after - was) * per) for after, was in zip(self._look(), before, strict=True)]
        self.found.append(Cost(name, *spent))

    def _look(self) -> list[int]:
        self._connection.execute("SELECT pg_stat_force_next_flush()")
        row = self._connection.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, wal_fpi,"
            " (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),"
            " (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables),"
            " (SELECT sum(n_tup_hot_upd) FROM pg_stat_user_tables) FROM pg_stat_wal"
        ).fetchone()
        assert row is not None
        return [int(each) for each in row]


def payload(number: int) -> dict[str, Any]:
    """Return a payload of some 330 bytes, which no page compresses to nothing."""
    return {
        "number": number,
        "text": "".join(chr(97 + (number * 7 + place * place) % 26) for place in range(TEXT_BYTES)),
    }


def measure(jobs: int) -> dict[str, Any]:
    """Measure every phase with so many jobs; the worker is a real one with two children and default settings."""
    from benchmarks.worker import Worker

    with database.connect() as connection:
        meter = Meter(connection)
        per = MILLION / jobs
        with Worker() as worker:
            worker.wait_until_idle(connection)
            with meter.phase("an idle worker, an hour", per=3600 / (IDLE_SECONDS + REPORT_SECONDS)):
                time.sleep(IDLE_SECONDS)
            with meter.phase("paced: enqueued one by one, run one by one", per=per):
                _enqueue_paced(jobs)
                worker.wait_until(connection, _settled(jobs))
            connections = _one(connection, f"SELECT count(*) FROM pg_stat_activity WHERE {OF_WORKERS}")
            with meter.phase("statistics folded", per=per):
                worker.wait_until(connection, "SELECT count(*) <= 8 FROM jobqueue_stat")
            with meter.phase("a load: enqueued by the thousand, run in batches", per=per / 4):
                _enqueue_many(jobs * 4)
                worker.wait_until(connection, _settled(jobs * 5))
        done = jobs * 5
        sizes = _sizes(connection)
        sizes["rows alone"] = _one(connection, "SELECT sum(pg_column_size(job.*) + 4) FROM jobqueue_job AS job")
        rows = {name: _one(connection, f"SELECT count(*) FROM {name}") for (name,) in connection.execute(TABLES)}
        with meter.phase("pruned", per=MILLION / done):
            _prune()
        with meter.phase("vacuumed after the prune", per=MILLION / done):
            connection.execute("VACUUM jobqueue_job", prepare=False)
        after = _sizes(connection)
    return {
        "jobs": jobs,
        "connections of a worker with two children that use no database": connections,
        "bytes of a million kept jobs": {name: round(size * MILLION / done) for name, size in sizes.items()},
        "bytes left after all were pruned and vacuumed": after,
        "rows kept": {name: count for name, count in rows.items() if count},
        "phases": [asdict(cost) for cost in meter.found],
    }


def _enqueue_paced(jobs: int) -> None:
    from benchmarks.jobs import NOTHING
    from jobqueue.models import Job

    due = time.monotonic()
    for number in range(jobs):
        Job.objects.enqueue(NOTHING, payload(number))
        due += 1 / PACE
        time.sleep(max(0.0, due - time.monotonic()))


def _enqueue_many(jobs: int) -> None:
    from benchmarks.jobs import NOTHING
    from jobqueue.models import Job

    for start in range(0, jobs, 1000):
        Job.objects.enqueue_many([(NOTHING, payload(number)) for number in range(start, min(start + 1000, jobs))])


def _prune() -> None:
    from django.core.management import call_command

    call_command("jobqueue_prune", "--status", "done", "--older-than", "0s", verbosity=0)


def _settled(jobs: int) -> str:
    return f"{SETTLED.replace('%s', str(jobs))} FROM jobqueue_job"


def _sizes(connection: Connection) -> dict[str, int]:
    row = connection.execute(SIZES).fetchone()
    assert row is not None
    return {name: int(size) for name, size in zip(("jobqueue_job", "its indexes", "other tables"), row, strict=True)}


def _one(connection: Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measures.capacity", description=__doc__)
    parser.add_argument(
        "--jobs",
        type=int,
        default=3500,
        help="of the paced phase (default: %(default)s, five minutes of a million a day)",
    )
    parser.add_argument("--json", action="store_true", help="print all as JSON")
    options = parser.parse_args(arguments)
    from project.postgres import Server

    # Short: the path of a socket has an end. Not below a folder that only its owner may enter: a server is not root.
    server = Server(Path(tempfile.mkdtemp(prefix="jobqueue-capacity-")))
    try:
        os.environ["DATABASE_URL"] = server.ensure_running()
        from benchmarks.cli import prepare

        prepare(database.DEFAULT_NAME)
        with database.own_database(database.DEFAULT_NAME):
            found = measure(options.jobs)
    finally:
        server.remove()
    print(json.dumps(found, indent=1) if options.json else table(found))
    return 0


def table(found: dict[str, Any]) -> str:
    """Return the figures as lines for people."""
    lines = [f"{'a million jobs':<52} {'WAL MB':>8} {'pages':>9} {'transactions':>13} {'rows':>11} {'HOT':>10}"]
    lines += [
        f"{cost['phase']:<52} {cost['wal_bytes'] / 1e6:>8,.0f} {cost['full_pages']:>9,} {cost['transactions']:>13,}"
        f" {cost['rows_written']:>11,} {cost['hot_updates']:>10,}"
        for cost in found["phases"]
    ]
    return "\n".join([*lines, *(f"{key}: {value}" for key, value in found.items() if key != "phases")])


if __name__ == "__main__":
    raise SystemExit(main())
