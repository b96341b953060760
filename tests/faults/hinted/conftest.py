"""Run each test of this folder with each kind of broken hints (`hints` names them)."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from tests.connections import database_conninfo
from tests.faults.hints import HintChanger, garbage_on_the_channel

KINDS = ("none", "tenfold", "late", "garbage")
LATE_SECONDS = 3.0


@pytest.fixture(params=KINDS)
def hints(request: pytest.FixtureRequest) -> str:
    """Return how the hints of this test are broken."""
    return str(request.param)


@pytest.fixture
def changer(hints: str, transactional_db: None) -> Iterator[HintChanger | None]:
    """Return what changes the hints on their way to listeners, where they are tenfold or late."""
    if hints not in ("tenfold", "late"):
        yield None
        return
    server = connection.settings_dict
    changes: dict[str, Any] = {"times": 10} if hints == "tenfold" else {"delay": LATE_SECONDS}
    changer = HintChanger(server["HOST"] or "127.0.0.1", int(server["PORT"]), **changes)
    try:
        yield changer
    finally:
        changer.close()


@pytest.fixture
def worker_env(
    worker_env: dict[str, str], hints: str, changer: HintChanger | None, settings: Any
) -> Iterator[dict[str, str]]:
    """Return the environment of a worker whose hints are broken; who enqueues here sends none where none shall come."""
    changed: dict[str, str] = {}
    with ExitStack() as stack:
        if hints == "none":
            settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFY": False}
            changed["JOBQUEUE_NOTIFY"] = "off"
        if hints == "garbage":
            stack.enter_context(garbage_on_the_channel(database_conninfo()))
        if changer is not None:
            changed["JOBQUEUE_LISTEN_DSN"] = make_conninfo(
                database_conninfo(), host="127.0.0.1", port=changer.port, sslmode="disable", gssencmode="disable"
            )
        yield worker_env | changed
