"""What the doctor finds on a server that has a fault of its own."""

from collections.abc import Iterator

import pytest

from jobqueue.doctor import horizon
from jobqueue.doctor.examining import examine
from jobqueue.doctor.findings import Diagnosis, Finding
from jobqueue.models import Job
from tests.faults.servers import PrivateServer, new_home
from tests.ops.conftest import patient  # noqa: F401  (a fixture)
from tests.worker.waiting import until

pytestmark = [
    pytest.mark.server(config={"max_prepared_transactions": "4"}),
    pytest.mark.usefixtures("patient", "transactional_db"),
]


def examined() -> Diagnosis:
    return examine(Job.objects.db_manager("default"))


def one(diagnosis: Diagnosis, code: str) -> Finding:
    [found] = [finding for finding in diagnosis.findings if finding.code == code]
    return found


@pytest.mark.short
def test_autovacuum_switched_off_for_all(server: PrivateServer) -> None:
    server.set(autovacuum="off")

    assert one(examined(), "autovacuum_off").text == "autovacuum False, track_counts True"


@pytest.mark.short
def test_a_server_that_is_a_standby_now(server: PrivateServer) -> None:
    server.demote()
    try:
        found = examined()
    finally:
        server.promote()

    assert one(found, "engine_standby").kind.severity == "error"
    # Those that need a session of a worker's kind cannot be made there, and say so.
    unread = {check.name: check.unread for check in found.checks if check.unread}
    assert "standby" in unread["pooler"]
    assert {*unread} <= {"pooler", "listen", "growth"}


@pytest.mark.short
def test_a_transaction_that_was_prepared_and_forgotten(server: PrivateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "LONG_SECONDS", 0)
    server.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'")
    try:
        found = one(examined(), "horizon_prepared")
    finally:
        server.execute("ROLLBACK PREPARED 'forgotten'")

    assert (found.subject, found.text.endswith("by postgres")) == ("forgotten", True)


@pytest.fixture
def standby(server: PrivateServer) -> Iterator[PrivateServer]:
    """Return a standby that holds the horizon by a slot."""
    server.execute("SELECT pg_create_physical_replication_slot('lost')")
    other = server.standby(new_home(), name="standby")
    other.set(primary_slot_name="lost", hot_standby_feedback="on", wal_receiver_status_interval="1")
    try:
        yield other
    finally:
        other.destroy()
        server.execute("SELECT pg_drop_replication_slot('lost')")


def test_a_slot_whose_standby_is_gone(server: PrivateServer, standby: PrivateServer) -> None:
    slot = "SELECT active, xmin IS NOT NULL FROM pg_replication_slots"
    until(lambda: server.execute(slot) == [(True, True)], within=30, what="the standby's feedback")
    assert "horizon_slot" not in [finding.code for finding in examined().findings]

    standby.kill()

    until(lambda: server.execute(slot) == [(False, True)], within=30, what="the end of its connection")
    assert one(examined(), "horizon_slot").subject == "lost"
