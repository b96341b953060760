"""A private server for the scenarios of scale, and a table of 2.6 million jobs on it: loaded once, copied for each.

The table: 1,000,000 DONE for ten days with a failed attempt each, 1,000,000 DONE since yesterday, 500,000 SCHEDULED,
100,000 DEAD and 1,000 PENDING. A module takes `big_table` or `scale_table` in the place of `transactional_db`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from project.postgres import SUPERUSER

from .servers import PrivateServer, new_home

PLAIN, TEMPLATE, BIG = "jobqueue", "big_template", "big"
TABLES = "jobqueue_job, jobqueue_attempt, jobqueue_stat, jobqueue_cost, jobqueue_action, jobqueue_worker"
CONFIG = {
    "max_wal_size": "8GB",
    "shared_buffers": "512MB",
    "maintenance_work_mem": "256MB",
    "log_line_prefix": "%m [%p] %a ",
    "log_parameter_max_length": "0",
    "log_lock_waits": "on",  # those of a second and more
}

OLD, YOUNG, SCHEDULED, DEAD, PENDING = 1_000_000, 1_000_000, 500_000, 100_000, 1_000
PAYLOAD = "jsonb_build_object('number', n, 'text', repeat('x', 40)), 65"
LOAD = (
    f"""
INSERT INTO jobqueue_job (job_type, status, payload, payload_bytes, run_after, attempts, worker_id, lease_epoch,
                          claimed_at, run_started_at, first_started_at, finished_at, result, outcome)
SELECT 'probe.ok', 3, {PAYLOAD}, at, 2, 'earlier', 2, at, at, at, at, 'null', 1
  FROM (SELECT n, statement_timestamp() - make_interval(days => CASE WHEN n <= {OLD} THEN 10 ELSE 1 END,
                                                        secs => ({OLD + YOUNG} - n) / 100.0) AS at
          FROM generate_series(1, {OLD + YOUNG}) AS n) AS past
""",
    f"""
INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome)
SELECT id, 1, 1, 'earlier', claimed_at, claimed_at, claimed_at, 2 FROM jobqueue_job ORDER BY id LIMIT {OLD}
""",
    f"""
INSERT INTO jobqueue_job (job_type, status, payload, payload_bytes, run_after, attempts, worker_id, lease_epoch,
                          claimed_at, finished_at, outcome, last_error, error_class, fingerprint)
SELECT 'probe.ok', 4, {PAYLOAD}, at, 3, 'earlier', 3, at, at, 2, 'no answer', 'builtins.OSError', md5((n % 200)::text)
  FROM (SELECT n, statement_timestamp() - make_interval(days => 1, secs => n) AS at
          FROM generate_series({DEAD}, 1, -1) AS n) AS past
""",
    f"""
INSERT INTO jobqueue_job (job_type, status, payload, payload_bytes, run_after)
SELECT 'probe.ok', 5, {PAYLOAD}, statement_timestamp() + make_interval(days => 1, secs => n)
  FROM generate_series(1, {SCHEDULED}) AS n
""",
    f"""
INSERT INTO jobqueue_job (job_type, payload, payload_bytes)
SELECT 'probe.ok', {PAYLOAD} FROM generate_series(1, {PENDING}) AS n
""",
)
#: Made again after the rows are there, which takes a third of the time.
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
 WHERE tablename IN ('jobqueue_job', 'jobqueue_attempt') AND indexname NOT LIKE '%_pkey'
   AND indexname NOT IN (SELECT conname FROM pg_constraint)
"""


@pytest.fixture(scope="session")
def scale_server() -> Iterator[PrivateServer]:
    """Return the server that the scenarios of scale share."""
    server = PrivateServer(new_home(), config=CONFIG)
    try:
        yield server.create()
    finally:
        server.destroy()


@pytest.fixture(scope="session")
def big_template(scale_server: PrivateServer, django_db_blocker: Any) -> str:
    """Load the big table; returns the name of its database, which nobody connects to."""
    scale_server.execute(f"CREATE DATABASE {TEMPLATE}", database="postgres")
    with django_db_blocker.unblock(), django_on(scale_server, TEMPLATE):
        call_command("migrate", verbosity=0)
    with psycopg.connect(scale_server.conninfo(TEMPLATE), autocommit=True) as raw:
        indexes = raw.execute(INDEXES).fetchall()
        for name, _ in indexes:
            raw.execute(f"DROP INDEX {name}".encode())
        for statement in LOAD:
            raw.execute(statement.encode())
        for _, definition in indexes:
            raw.execute(definition.encode())
        for statement in ("VACUUM (ANALYZE) jobqueue_job", "VACUUM (ANALYZE) jobqueue_attempt", "CHECKPOINT"):
            raw.execute(statement.encode())
    return TEMPLATE


@pytest.fixture
def big_table(scale_server: PrivateServer, big_template: str, django_db_blocker: Any) -> Iterator[None]:
    """Point Django's connection at a copy of the big table."""
    scale_server.execute(f"DROP DATABASE IF EXISTS {BIG} WITH (FORCE)", database="postgres")
    scale_server.execute(
        f"CREATE DATABASE {BIG} TEMPLATE {big_template} STRATEGY FILE_COPY", database="postgres"
    )  # fmt: skip
    with django_db_blocker.unblock(), django_on(scale_server, BIG):
        yield
    scale_server.execute(f"DROP DATABASE {BIG} WITH (FORCE)", database="postgres")


@pytest.fixture
def scale_table(scale_server: PrivateServer, django_db_blocker: Any) -> Iterator[None]:
    """Point Django's connection at an empty table of that server."""
    with django_db_blocker.unblock(), django_on(scale_server, PLAIN):
        call_command("migrate", verbosity=0)
        scale_server.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")
        yield


@contextmanager
def django_on(server: PrivateServer, database: str) -> Iterator[None]:
    """Have Django's connection, and with it the fixtures of workers, use a database of a private server."""
    original = dict(connection.settings_dict)
    connection.close()
    address = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": SUPERUSER, "PASSWORD": server.password}
    connection.settings_dict.update(NAME=database, **address)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(original)
