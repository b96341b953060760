"""The example project's settings, read from the environment."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from jobqueue.conf import JobQueueSettings
from project.environment import jobqueue_settings
from tests.connections import SecondConnection, Watcher


@pytest.mark.smoke
@pytest.mark.django_db
def test_the_database_of_a_test_is_no_database_of_the_project() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        (name,) = cursor.fetchone()

    assert name.startswith("test_")


def test_a_subprocess_works_on_the_test_database(worker_env: dict[str, str]) -> None:
    code = "import django; django.setup(); from django.db import connection as c; print(c.settings_dict['NAME'])"

    done = subprocess.run([sys.executable, "-c", code], env=worker_env, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == connection.settings_dict["NAME"]


@pytest.mark.smoke
def test_a_blocked_connection_is_seen_as_blocked(
    second_connection: SecondConnection, open_connection: Callable[[], SecondConnection], watcher: Watcher
) -> None:
    third = open_connection()
    second_connection.execute("SELECT pg_advisory_xact_lock(7)")

    waiting = third.start_execute("SELECT pg_try_advisory_xact_lock(8), pg_advisory_xact_lock(7)")
    watcher.wait_until_blocked(third.pid, by=second_connection.pid)
    assert not waiting.done()
    second_connection.rollback()

    assert waiting.result(timeout=10) == [(True, "")]


def test_each_setting_is_read_from_its_variable_by_its_type() -> None:
    found = read(
        LEASE_SECONDS="7.5", THREADS="3", NOTIFY="off", PROCESSES="", LISTEN_DSN="host=db port=5432",
        COST_UNITS="USD, EUR", LIMITS='{"a.b": {"duration": 2}}',
    )  # fmt: skip

    assert found == {
        "LEASE_SECONDS": 7.5,
        "THREADS": 3,
        "NOTIFY": False,
        "PROCESSES": None,
        "LISTEN_DSN": "host=db port=5432",
        "COST_UNITS": ("USD", "EUR"),
        "LIMITS": {"a.b": {"duration": 2}},
    }


def test_every_setting_can_be_given_by_the_environment() -> None:
    defaults = dataclasses.asdict(JobQueueSettings())
    texts = {name: as_text(value) for name, value in defaults.items()}

    assert read(**texts) == defaults


def test_variables_that_are_no_settings_are_left_alone() -> None:
    assert read(SOMETHING_ELSE="1") == {}


@pytest.mark.parametrize(
    ("name", "text"), [("THREADS", "many"), ("NOTIFY", "perhaps"), ("LIMITS", "[1]"), ("LIMITS", "{"), ("PRIORITY", "")]
)
def test_a_variable_that_cannot_be_read_is_named(name: str, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"JOBQUEUE_{name}="):
        read(**{name: text})


def read(**texts: str) -> dict[str, Any]:
    return jobqueue_settings({f"JOBQUEUE_{name}": text for name, text in texts.items()})


def as_text(value: object) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)
