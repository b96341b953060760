"""Have a test's own Django connection and its workers go through PgBouncer; what watches them goes straight.

`@pytest.mark.pooler(default_pool_size=2)` sets options of the pooler.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper

from tests.connections import database_conninfo
from tests.faults import measured
from tests.faults.pgbouncer import PgBouncer
from tests.faults.universal import check_scenario
from tests.worker.conftest import Launch, check_all, workers_below
from tests.worker.effects import Effects
from tests.worker.forwarder import Forwarder


@pytest.fixture
def pooler(transactional_db: None, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """Return the pooler of this test, running."""
    mark = request.node.get_closest_marker("pooler")
    server = connection.settings_dict
    pooler = PgBouncer(
        host=server["HOST"],
        port=server["PORT"],
        user=server["USER"],
        password=server["PASSWORD"],
        **(mark.kwargs if mark else {}),
    )
    try:
        yield pooler.start()
    finally:
        pooler.destroy()


@pytest.fixture(autouse=True)
def web(pooler: PgBouncer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have Django's connections of this process go through the pooler; `settings_dict` still tells the server."""
    straight = DatabaseWrapper.get_connection_params

    def pooled(self: DatabaseWrapper) -> dict[str, Any]:
        return {**straight(self), "host": "127.0.0.1", "port": pooler.port}

    connection.close()
    monkeypatch.setattr(DatabaseWrapper, "get_connection_params", pooled)
    # As Django's documentation demands: cursors that outlive a transaction do not pass such a pooler.
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    yield
    connection.close()
    monkeypatch.undo()


@pytest.fixture
def worker_env(worker_env: dict[str, str], pooler: PgBouncer) -> dict[str, str]:
    """Return the environment of workers whose database is the pooler, and whose listener goes straight."""
    url = pooler.url(connection.settings_dict["NAME"])
    return worker_env | {"DATABASE_URL": url, "JOBQUEUE_LISTEN_DSN": database_conninfo()}


@pytest.fixture
def launch(
    worker_env: dict[str, str], tmp_path: Path, effects: Effects, proxy: Forwarder, request: pytest.FixtureRequest
) -> Iterator[Launch]:
    """Return the function that starts a worker; the universal checks follow where the test passed."""
    with workers_below(tmp_path, worker_env, effects.conninfo) as (launch_one, workers):
        yield launch_one
        if request.node.stash.get(measured.PASSED, False):
            # A pooled connection bears the name of its last client: connections cannot be counted by name here.
            check_scenario(workers, launch_one, effects, counted=False)
            check_all(workers)


@pytest.fixture
def proxy(pooler: PgBouncer) -> Iterator[Forwarder]:
    """Return a forwarder in front of the pooler, shut at first."""
    from tests.worker.forwarder import forwarder

    with forwarder("127.0.0.1", pooler.port) as made:
        yield made


@pytest.fixture
def through_proxy(worker_env: dict[str, str], pooler: PgBouncer, proxy: Forwarder) -> dict[str, str]:
    """Return the environment that has a worker's connections go through the forwarder, then the pooler."""
    return {"DATABASE_URL": worker_env["DATABASE_URL"].replace(f":{pooler.port}/", f":{proxy.port}/")}
