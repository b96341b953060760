"""Roles that own no table: the grants of docs/databases.md suffice, and each is needed. And no pool in workers."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import ProgrammingError, connection, connections, transaction

from jobqueue.children.zygote import name_connections
from jobqueue.models import Job
from jobqueue.ops.health import missing_migrations
from tests.factories import WorkerFactory

PAGE = Path(__file__).resolve().parents[2] / "docs" / "databases.md"
ROLE = "shop_front"
GRANTS = next(block for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL) if ROLE in block)
LINES = [line for line in GRANTS.splitlines() if "SCHEMA" not in line]  # `public` is open to everybody by default
#: What a service does that enqueues, and nothing else.
WAYS: dict[str, Callable[[], object]] = {
    "one": lambda: Job.objects.enqueue("probe.ok"),
    "by a key": lambda: [Job.objects.get_or_enqueue("probe.ok", dedupe_key="key") for _ in range(2)],
    "later": lambda: Job.objects.enqueue("probe.ok", run_after=timedelta(hours=1)),
    "many": lambda: Job.objects.enqueue_many([("probe.ok", {})] * 3),
}
Heard = Callable[[], list[str]]


@pytest.fixture
def role(transactional_db: None) -> Iterator[str]:
    """Return a new role that may do nothing; roles are the server's, so it has the name of this run's database."""
    name = f"{connection.settings_dict['NAME']}_front"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP ROLE IF EXISTS "{name}"')
        cursor.execute(f'CREATE ROLE "{name}"')
    yield name
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
        cursor.execute(f'DROP OWNED BY "{name}"')
        cursor.execute(f'DROP ROLE "{name}"')


@contextmanager
def acting_as(role: str, grants: list[str]) -> Iterator[None]:
    """Have Django's connection be the role's, with these grants."""
    with connection.cursor() as cursor:
        for grant in grants:
            cursor.execute(grant.replace(ROLE, f'"{role}"'))
        cursor.execute(f'SET ROLE "{role}"')
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")


def what_works(heard: Heard) -> set[str]:
    """Try everything, alone and in a transaction; returns what worked, and whether a sleeping worker was woken."""
    works = set()
    for name, enqueue in WAYS.items():
        with suppress(ProgrammingError):
            enqueue()
            with transaction.atomic():
                enqueue()
            works.add(name)
    return works | ({"woken"} if "default" in heard() else set())


def test_the_grants_of_the_page_suffice_to_enqueue(role: str, heard: Heard) -> None:
    """In every way, and a worker that sleeps is woken."""
    WorkerFactory.create(idle=True, queues=["*"])

    with acting_as(role, GRANTS.splitlines()):
        works = what_works(heard)

    assert works == {*WAYS, "woken"}


@pytest.mark.parametrize("missing", LINES)
def test_each_of_these_grants_is_needed(
    missing: str, role: str, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    """None is there in vain."""
    caplog.set_level(logging.CRITICAL, "jobqueue.enqueue")  # a wake-up that could not be sent is warned of
    WorkerFactory.create(idle=True, queues=["*"])

    with acting_as(role, [line for line in GRANTS.splitlines() if line != missing]):
        works = what_works(heard)

    assert works < {*WAYS, "woken"}


def test_migrations_that_a_role_may_not_read_are_not_taken_for_missing(role: str) -> None:
    """Whoever is told that all migrations are missing migrates, which cures nothing."""
    with acting_as(role, []), pytest.raises(ProgrammingError, match="permission denied for table django_migrations"):
        missing_migrations(Job.objects.run_sql)


def test_handlers_have_named_connections_and_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool opens four connections by default, for a process that runs one job at a time."""
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", {"pool": True, "sslmode": "prefer"})

    name_connections("w1")

    assert connections.settings["default"]["OPTIONS"] == {"sslmode": "prefer", "application_name": "jobqueue child w1"}
