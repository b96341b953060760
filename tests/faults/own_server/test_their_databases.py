"""C150: the ways in which projects set databases up, each tried with migrate, views, worker, console and commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jobqueue.ops.database import table_names
from tests.faults.pgbouncer import PgBouncer
from tests.faults.servers import PrivateServer, new_home
from tests.worker.conftest import workers_below
from tests.worker.effects import Effects
from tests.worker.waiting import until

from .theirs import DONE, OURS, SETTINGS, Project, granted, names_of, well


@pytest.fixture
def project(server: PrivateServer, effects_conninfo: str, tmp_path: Path) -> Iterator[Project]:
    """Return a project with a database of its own on this test's server."""
    effects = Effects(effects_conninfo)
    environment = {"PROBE_DSN": effects_conninfo, "PYTHONUNBUFFERED": "1"}
    try:
        with workers_below(tmp_path, environment, effects_conninfo) as (launch, workers):
            yield Project(server, launch, environment, names_of(tmp_path))
            for worker in workers:
                if not worker.expected_to_end:
                    worker.stop()
                    assert worker.ends() == 0, worker.log
                assert "Traceback" not in worker.log, worker.log
    finally:
        effects.close()


@pytest.fixture
def standby(server: PrivateServer) -> Iterator[PrivateServer]:
    """Return a standby that streams from this test's server."""
    standby = server.standby(new_home(), name="replica")
    try:
        yield standby
    finally:
        standby.destroy()


SPREAD = """
import django
django.setup()
from jobqueue.models import Job
there = Job.objects.db_manager("more")
there.enqueue("probe.ok")
there.enqueue_many([("probe.orm", {})] * 10)
there.get_or_enqueue("probe.ok", dedupe_key="k")
"""

WAYS: dict[str, dict[str, Any]] = {
    "as Django makes it": {},
    "CONN_MAX_AGE": {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True},
    "ATOMIC_REQUESTS": {"ATOMIC_REQUESTS": True},
    "pool": {"OPTIONS": {"pool": {"min_size": 1, "max_size": 4}}},
    "pool and ATOMIC_REQUESTS": {"OPTIONS": {"pool": True}, "ATOMIC_REQUESTS": True},
    "REPEATABLE READ": {"OPTIONS": {"isolation_level": psycopg.IsolationLevel.REPEATABLE_READ.value}},
    "statement_timeout": {"OPTIONS": {"options": "-c statement_timeout=500"}},
    "idle_in_transaction": {"OPTIONS": {"options": "-c idle_in_transaction_session_timeout=500"}},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_one_database(way: dict[str, Any], project: Project) -> None:
    """C25, C74: all of it works, and a view that fails takes its job along where Django says so."""
    project.migrate()
    project.databases["default"] |= way
    project.worker()

    told = project.tour()

    well(told, left=(0, 0) if "ATOMIC_REQUESTS" in way else (1, 1))


def test_pools_are_for_the_web(project: Project) -> None:
    """C70: a pool of OPTIONS is not opened by a worker, whose connections stay within the formula, named or not."""
    project.migrate()
    project.databases["default"]["OPTIONS"] = {"pool": {"min_size": 3, "max_size": 6}}
    project.worker("--metrics-port", "0")

    well(project.tour())

    assert project.connections() == 5 + 2


@pytest.mark.parametrize("how", ["OPTIONS", "ALTER ROLE"])
def test_tables_in_a_schema_of_their_own(how: str, project: Project) -> None:
    """Nothing of it is in `public`."""
    role = f"{project.name}_app"
    project.role(role)
    project.execute(f"CREATE SCHEMA shop AUTHORIZATION {role}")
    project.databases["default"] = project.database(user=role)
    if how == "OPTIONS":
        project.databases["default"]["OPTIONS"] = {"options": "-c search_path=shop"}
    else:
        project.execute(f"ALTER ROLE {role} SET search_path = shop")
    project.migrate()
    project.worker()

    well(project.tour())

    schemas = project.execute("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'jobqueue%'")
    assert schemas == [("shop",)]


def test_short_limits_of_the_role_from_migrate_to_console(project: Project) -> None:
    """C25, C74: ALTER ROLE ... SET of every limit, also while the tables are made."""
    role = f"{project.name}_app"
    project.role(role)
    project.execute(f"ALTER DATABASE {project.name} OWNER TO {role}")
    for limit, value in {"statement_timeout": 1000, "lock_timeout": 300}.items():
        project.execute(f"ALTER ROLE {role} SET {limit} = {value}")
    for limit in ("idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"):
        project.execute(f"ALTER ROLE {role} SET {limit} = 2000")
    project.databases["default"] = project.database(user=role)
    project.migrate()
    project.worker()

    well(project.tour())


def test_a_second_alias(project: Project) -> None:
    """C150: the app on an alias of its own, with its own connections, ATOMIC_REQUESTS there and not on the other."""
    jobs = f"{project.name}_jobs"
    project.create_database(jobs)
    project.databases["jobs"] = project.database(jobs, ATOMIC_REQUESTS=True)
    project.routers = [f"{SETTINGS}.JobsRouter"]
    project.migrate()
    project.migrate("--database", "jobs")
    project.worker()

    # The row is on the database without ATOMIC_REQUESTS, the job on the one with: only the job is rolled back.
    well(project.tour(), left=(1, 0), done=DONE - 1)

    assert project.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'jobqueue%'") == [(0,)]


def test_reads_by_a_router_from_a_standby(project: Project, standby: PrivateServer) -> None:
    """C150: lists and charts may be read from a replica; whatever is decided is decided on the primary."""
    project.databases["replica"] = project.database(PORT=standby.port, TEST={"MIRROR": "default"})
    project.routers = [f"{SETTINGS}.ReplicaRouter"]
    project.migrate()
    project.worker()

    well(project.tour())

    assert "cannot execute" not in standby.log_text


@pytest.mark.server(version=15, tls=True)
def test_tls_by_certificate(project: Project) -> None:
    """C28: sslmode=verify-full against the server's own certificate."""
    options = {"sslmode": "verify-full", "sslrootcert": str(project.server.data / "server.crt")}
    project.databases["default"]["OPTIONS"] = options
    project.migrate()
    project.worker()

    well(project.tour())

    encrypted = project.execute(f"SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) {OURS}")
    assert encrypted == [(True,)]


@pytest.mark.parametrize("options", [{}, {"isolation_level": 3}], ids=["", "REPEATABLE READ"])
def test_pgbouncer_before_everybody(options: dict[str, Any], project: Project) -> None:
    """C68: web, worker, console and even migrate through a pool in transaction mode; the listener straight."""
    server = project.server
    pooler = PgBouncer(host=server.address, port=server.port, user="postgres", password=server.password)
    try:
        pooler.start()
        pooled = {"PORT": pooler.port, "DISABLE_SERVER_SIDE_CURSORS": True, "OPTIONS": options}
        project.databases["default"] |= pooled
        project.migrate()
        project.worker(LISTEN_DSN=server.conninfo(project.name))

        well(project.tour())

        assert pooler.left_set(project.name) == []
    finally:
        pooler.destroy()


@pytest.mark.parametrize("grants", ["by default privileges", "table by table"])
def test_web_and_worker_by_roles_that_own_nothing(grants: str, project: Project) -> None:
    """With the grants of docs/databases.md, word by word."""
    owner, worker, web = (f"{project.name}_{role}" for role in ("owner", "worker", "web"))
    for role in (owner, worker, web):
        project.role(role)
    for statement in granted("shop_owner", project.name):
        project.execute(statement)
    if grants == "table by table":
        project.execute(f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} REVOKE ALL ON TABLES FROM {worker}")
        project.execute(f"DROP OWNED BY {worker}")
    project.migrate(default=project.database(user=owner))
    if grants == "table by table":
        tables = ", ".join(table_names())
        project.execute(f"GRANT USAGE ON SCHEMA public TO {worker}")
        project.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {worker}")
        project.execute(f"GRANT SELECT ON django_migrations TO {worker}")
        project.execute(f"GRANT SELECT, INSERT ON auth_group TO {worker}")  # what the handlers use
    project.databases["default"] = project.database(user=worker)
    project.worker()
    project.databases["default"] = project.database(user=web)

    well(project.tour())

    owners = project.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert owners == [(owner,)]


def test_a_worker_without_grants_says_what_it_lacks(project: Project) -> None:
    """Not that the tables are missing, and by one line."""
    project.migrate()
    project.role(f"{project.name}_app")
    project.databases["default"] = project.database(user=f"{project.name}_app")

    worker = project.worker(wait=False)

    assert worker.ends() == 1
    assert "permission denied for table django_migrations" in worker.log
    assert "Traceback" not in worker.log, worker.log


def test_queues_spread_over_several_databases(project: Project) -> None:
    """Past one server: the tables on two aliases, the second one named by who enqueues and by its worker."""
    more = f"{project.name}_more"
    project.create_database(more)
    project.databases["more"] = project.database(more)
    project.migrate()
    project.migrate("--database", "more")
    project.worker()
    other = project.worker("--database", "more")

    project.run("-c", SPREAD)

    well(project.tour())
    done = f"SELECT status, count(*) FROM jobqueue_job WHERE worker_id = '{other.worker_id}' GROUP BY status"
    assert project.execute(done) == []
    until(lambda: project.execute(done, more) == [(3, 12)], within=30, what=lambda: str(project.execute(done, more)))
