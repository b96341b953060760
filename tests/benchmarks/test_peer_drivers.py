"""Every driver on Django or Redis does for real what the harness asks of it; its environment is made on demand."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from benchmarks import database
from benchmarks.peers.base import Peer
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.works.drain import drain_due
from tests.connections import database_conninfo

NAMES = [
    "django-tasks-db",
    "django-ox",
    "dj-queue",
    "django-vtasks",
    "django-vtasks-batch",
    "steady-queue",
    "django-q2",
    "celery",
    "rq",
    "huey",
]
UNTUNED = {"django-vtasks", "django-vtasks-batch"}  # that have no tuned form
FORMS = [(name, tuned) for name in NAMES for tuned in (False, True) if not (tuned and name in UNTUNED)]
# Its later jobs go the way of all others first, and are put off by the worker that gets them.
PUT_OFF_BY_THE_WORKER = {"celery"}
pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def own_database() -> Iterator[None]:
    """Where the harness connects to make the peers' databases, which are named after it."""
    name = f"jobqueue_peers_test_{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch, psycopg.connect(database_conninfo(), autocommit=True) as server:
        patch.setenv(database.NAME_VARIABLE, name)
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        yield
        server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.mark.parametrize(("name", "tuned"), FORMS, ids=[f"{name}-tuned" if tuned else name for name, tuned in FORMS])
def test_due_jobs_run_once_each_and_later_ones_wait(name: str, tuned: bool) -> None:
    with Peer(name, tuned=tuned) as peer:
        peer.reset()
        peer.call("one_by_one", first=peer.take_numbers(3), count=3, seconds=60)
        if peer.about["bulk_size"]:
            peer.call("in_bulk", first=peer.take_numbers(4), count=4, seconds=60)
        due = peer.jobs
        assert (peer.call("waiting"), peer.finished()) == (due, 0)
        peer.call("later", first=peer.take_numbers(5), count=5, seconds=86_400)
        assert peer.call("waiting") == (due + 5 if name in PUT_OFF_BY_THE_WORKER else due)

        drained = drain_due(peer, 0, due, 1, 60.0)

        assert (drained.finished, peer.finished()) == (due, due)
        assert peer.tally.began(due, peer.jobs) == 0


def test_no_driver_here_is_missing_from_the_catalogue() -> None:
    assert set(NAMES) <= PEERS.keys()
