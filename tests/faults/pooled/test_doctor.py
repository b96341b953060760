"""What the doctor says of a pooler in transaction mode: what it is, and what does not pass it."""

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings

from jobqueue.doctor.examining import examine
from jobqueue.doctor.findings import Diagnosis
from jobqueue.models import Job
from tests.connections import database_conninfo
from tests.faults.pgbouncer import PgBouncer
from tests.ops.conftest import patient  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.short, pytest.mark.usefixtures("patient", "transactional_db")]


def examined(dsn: str | None) -> Diagnosis:
    with override_settings(JOBQUEUE={**settings.JOBQUEUE, "LISTEN_DSN": dsn}):
        return examine(Job.objects.db_manager("default"))


def detail(diagnosis: Diagnosis, name: str) -> str:
    return next(check.detail for check in diagnosis.checks if check.name == name)


def codes(diagnosis: Diagnosis) -> set[str]:
    # No worker runs here, and the tests before have left dead rows in the database that all of them share.
    return {finding.code for finding in diagnosis.findings} - {"no_worker", "dead_rows"}


def test_a_pooler_is_told_and_nothing_is_left_on_its_connections(pooler: PgBouncer) -> None:
    found = examined(None)

    assert "transaction mode" in detail(found, "pooler")
    assert codes(found) == {"listen_pooled"}
    assert [check.name for check in found.checks if check.unread] == []
    assert pooler.left_set(connection.settings_dict["NAME"]) == []


def test_a_way_around_the_pooler_is_heard_through(pooler: PgBouncer) -> None:
    found = examined(database_conninfo())

    assert codes(found) == set()
    assert "came through" in detail(found, "listen")


def test_cursors_that_do_not_pass_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", False)

    assert "pooler_cursors" in codes(examined(database_conninfo()))


@pytest.mark.pooler(pool_mode="session", default_pool_size=8)
def test_a_pooler_in_session_mode_passes_everything() -> None:
    found = examined(None)

    assert "session mode" in detail(found, "pooler")
    assert codes(found) == set()
