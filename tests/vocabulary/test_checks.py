"""System checks: each mistake has a number, and sound settings have none."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core import checks as django_checks
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.db import connections
from pytest_django import Settings

from jobqueue import checks, tracing
from jobqueue.registry import Registry

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": "other"}


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


class Router:
    """Sends what the test says to another database."""

    writes: dict[str, str] = {}
    reads: dict[str, str] = {}
    refused: set[str] = set()

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return self.writes.get(model.__name__)

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.reads.get(model.__name__)

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        return False if model_name in self.refused else None


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Callable[..., None]:
    """Return a function that adds databases; none of them is ever connected to."""

    def add(**more: dict[str, Any]) -> None:
        handler = type(connections)({**connections.settings, **more})
        monkeypatch.setattr(checks, "connections", handler)
        for alias, values in more.items():
            monkeypatch.setitem(settings.DATABASES, alias, values)

    return add


@pytest.fixture
def router(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[Router]:
    settings.DATABASE_ROUTERS = [Router()]
    for name in ("writes", "reads"):
        monkeypatch.setattr(Router, name, {})
    monkeypatch.setattr(Router, "refused", set())
    return Router


def test_the_example_project_passes() -> None:
    assert run_checks(tags=[checks.TAG, checks.HANDLERS_TAG]) == []


def test_the_checks_are_part_of_manage_py_check() -> None:
    call_command("check", fail_level="WARNING")


def test_the_checks_of_settings_import_no_handlers(fresh_registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor runs them, and no code of the project."""
    monkeypatch.setattr(checks, "registry", fresh_registry)
    monkeypatch.setattr(fresh_registry, "load", lambda: pytest.fail("handlers were imported"))

    assert run_checks(tags=[checks.TAG]) == []


# Settings


def test_a_value_that_breaks_its_rule_is_an_error(settings: Settings) -> None:
    settings.JOBQUEUE = {"LEASE_SECONDS": 4}

    (message,) = checks.check_settings()

    assert (message.id, message.level) == ("jobqueue.E003", django_checks.ERROR)
    assert message.msg == "JOBQUEUE['LEASE_SECONDS'] = 4: must be from 5 to 3600"


def test_an_unknown_key_is_an_error(settings: Settings) -> None:
    settings.JOBQUEUE = {"LEASE": 6}

    assert ids(checks.check_settings()) == ["jobqueue.E003"]


def test_a_contradiction_is_an_error(settings: Settings) -> None:
    settings.JOBQUEUE = {"BACKOFF_BASE_SECONDS": 700}

    (message,) = checks.check_settings()

    assert (message.id, message.level) == ("jobqueue.E004", django_checks.ERROR)


def test_a_contradiction_that_only_delays_is_a_warning(settings: Settings) -> None:
    settings.JOBQUEUE = {"POLL_SECONDS": 300}

    (message,) = checks.check_settings()

    assert (message.id, message.level) == ("jobqueue.W004", django_checks.WARNING)


def test_a_bound_for_claims_below_two_heartbeats_is_a_warning(settings: Settings) -> None:
    settings.JOBQUEUE = {"READY_CLAIM_SECONDS": 19.9}
    assert ids(checks.check_settings()) == ["jobqueue.W004"]

    settings.JOBQUEUE = {"READY_CLAIM_SECONDS": 20}
    assert ids(checks.check_settings()) == []


def test_tracing_without_opentelemetry_is_an_error(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_tracing() == []
    settings.JOBQUEUE = {"TRACING": True}
    assert checks.check_tracing() == []

    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing._api.cache_clear()
    try:
        (message,) = checks.check_tracing()
    finally:
        tracing._api.cache_clear()

    assert (message.id, message.hint) == (
        "jobqueue.E012",
        "pip install 'jobqueue[otel]', or turn JOBQUEUE['TRACING'] off",
    )


@pytest.mark.parametrize(
    "token", ["", "short", "with a space in it ok", "sixteen-characté", 1234567890123456, b"0123456789abcdef"]
)
def test_a_token_that_could_be_guessed_or_sent_by_no_header_is_refused(settings: Settings, token: Any) -> None:
    settings.JOBQUEUE = {"OPS_TOKEN": token}

    (message,) = checks.check_settings()

    assert message.id == "jobqueue.E003"
    assert str(token) not in message.msg or not token


def test_with_wrong_settings_the_other_checks_still_run(settings: Settings) -> None:
    settings.JOBQUEUE = {"LEASE_SECONDS": 4}

    assert ids(run_checks(tags=[checks.TAG, checks.HANDLERS_TAG])) == ["jobqueue.E003"]


def test_use_tz_off_is_refused(settings: Settings) -> None:
    """C137."""
    settings.USE_TZ = False

    (message,) = checks.check_time_zone()

    assert (message.id, message.level) == ("jobqueue.E005", django_checks.ERROR)


# The database


def test_an_alias_that_does_not_exist_is_an_error(settings: Settings) -> None:
    settings.JOBQUEUE = {"DATABASE": "jobs"}

    (message,) = checks.check_database()

    assert message.id == "jobqueue.E008"
    assert message.msg == "the database of the jobs is 'jobs', DATABASES has default"


def test_another_engine_is_an_error(settings: Settings, databases: Callable[..., None]) -> None:
    databases(lite=SQLITE)
    settings.JOBQUEUE = {"DATABASE": "lite"}

    (message,) = checks.check_database()

    assert message.id == "jobqueue.E001"
    assert message.msg == "jobs need PostgreSQL, database 'lite' is sqlite"


def test_a_custom_engine_of_postgresql_is_fine(settings: Settings, databases: Callable[..., None]) -> None:
    databases(gis={**POSTGRESQL, "ENGINE": "tests.vocabulary.engine"})
    settings.JOBQUEUE = {"DATABASE": "gis"}

    assert checks.check_database() == []


def test_an_engine_that_cannot_be_loaded_is_an_error(settings: Settings, databases: Callable[..., None]) -> None:
    databases(odd={"ENGINE": "no.such.engine", "NAME": "x"})
    settings.JOBQUEUE = {"DATABASE": "odd"}

    (message,) = checks.check_database()

    assert message.id == "jobqueue.E002"
    assert "no.such.engine" in message.msg


def test_the_old_driver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)

    (message,) = checks.check_database()

    assert (message.id, message.msg) == ("jobqueue.E002", "jobs need psycopg 3, not psycopg2")


def test_no_check_connects_to_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """`manage.py check` must work while the database is away; without the django_db mark a query would fail."""
    assert run_checks(tags=[checks.TAG, checks.HANDLERS_TAG]) == []


# Routers


def test_one_alias_for_all_tables_is_fine(router: type[Router], databases: Callable[..., None]) -> None:
    databases(jobs=POSTGRESQL)
    router.writes = dict.fromkeys((model.__name__ for model in checks._models()), "jobs")

    assert checks.jobs_alias() == "jobs"
    assert checks.check_router() == []
    assert checks.check_database() == []


def test_tables_in_two_databases_are_an_error(router: type[Router]) -> None:
    router.writes = {"Attempt": "other"}

    (message,) = checks.check_router()

    assert message.id == "jobqueue.E009"
    assert message.msg == "the database router writes Attempt to 'other', the jobs are in 'default'"


def test_a_router_that_disagrees_with_the_setting_is_an_error(
    router: type[Router], settings: Settings, databases: Callable[..., None]
) -> None:
    databases(jobs=POSTGRESQL)
    settings.JOBQUEUE = {"DATABASE": "jobs"}

    messages = checks.check_router()

    assert set(ids(messages)) == {"jobqueue.E009"}
    assert len(messages) == len(checks._models())


def test_a_table_that_may_not_migrate_to_the_jobs_database_is_an_error(router: type[Router]) -> None:
    router.refused = {"attempt"}

    (message,) = checks.check_router()

    assert message.id == "jobqueue.E009"
    assert "does not let Attempt migrate to 'default'" in message.msg


def test_lists_read_from_a_replica_are_fine(router: type[Router]) -> None:
    router.reads = {"Job": "replica"}

    assert checks.check_router() == []


# Handlers and notifiers


def test_a_job_type_declared_twice_is_an_error(
    fresh_registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    make_app: Callable[..., str],
    install: Callable[..., None],
) -> None:
    """C163."""
    monkeypatch.setattr(checks, "registry", fresh_registry)
    source = 'from jobqueue import job\n@job("twice")\ndef one(context): ...\n@job("twice")\ndef two(context): ...\n'
    install(make_app("shop", jobs=source))

    (message,) = checks.check_handlers()

    assert (message.id, message.level) == ("jobqueue.E006", django_checks.ERROR)
    assert message.msg == "job type 'twice' is declared by shop.jobs.one and by shop.jobs.two"


def test_a_module_that_cannot_be_imported_is_a_warning_so_that_everything_starts(
    fresh_registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    make_app: Callable[..., str],
    install: Callable[..., None],
) -> None:
    monkeypatch.setattr(checks, "registry", fresh_registry)
    install(make_app("shop", jobs="import no_such_library\n"))

    (message,) = checks.check_handlers()

    assert (message.id, message.level) == ("jobqueue.W007", django_checks.WARNING)
    assert message.msg == (
        "handler module shop.jobs cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"
    )


def test_limits_of_a_type_that_no_handler_has_are_a_warning(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"no.such": {"duration": 5}}}

    (message,) = checks.check_handlers()

    assert (message.id, message.level) == ("jobqueue.W011", django_checks.WARNING)
    assert message.msg == "JOBQUEUE['LIMITS'] names 'no.such', which no handler has"


@pytest.mark.parametrize(
    ("job_type", "why"),
    [("no.such", "which no handler has"), ("probe.works_of_old", "an alias: costs are booked under 'probe.works'")],
)
def test_a_budget_that_no_cost_is_ever_booked_on_is_a_warning(settings: Settings, job_type: str, why: str) -> None:
    terms = {"amount": "1", "per": "day"}
    settings.JOBQUEUE = {"BUDGETS": {"lost": {**terms, "job_type": job_type}, "b": {**terms, "job_type": "probe.ok"}}}

    (message,) = checks.check_handlers()

    assert (message.id, message.level) == ("jobqueue.W011", django_checks.WARNING)
    assert message.msg == f"JOBQUEUE['BUDGETS']['lost'] is of {job_type!r}, {why}"


def test_a_notifier_that_cannot_be_loaded_is_an_error(settings: Settings) -> None:
    settings.JOBQUEUE = {"NOTIFIERS": ["no.such"]}

    (message,) = checks.check_notifiers()

    assert (message.id, message.level) == ("jobqueue.E010", django_checks.ERROR)
    assert "no.such" in message.msg


def test_a_variable_of_an_alert_rule_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBQUEUE_ALERT_DEAD_1H", "many")

    (message,) = checks.check_alerts()

    assert (message.id, message.level) == ("jobqueue.E013", django_checks.ERROR)
    assert "JOBQUEUE_ALERT_DEAD_1H='many' is not a number" in message.msg


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("http://ops.example.org/x", "https"),
        ({"url": "https://ops.example.org/x", "secret": "nobody"}, "no secret named 'nobody'"),
        ("https://user:pass@ops.example.org/x", "JOBQUEUE"),
    ],
)
def test_a_webhook_that_no_alert_could_be_sent_to_is_an_error(settings: Settings, hook: Any, words: str) -> None:
    settings.JOBQUEUE = {"ALERT_WEBHOOKS": [hook]}

    (message,) = checks.check_alerts()

    assert (message.id, words in message.msg) == ("jobqueue.E013", True)


def test_webhooks_of_alerts_that_can_be_reached_are_fine(settings: Settings) -> None:
    settings.JOBQUEUE = {"ALERT_WEBHOOKS": ["https://ops.example.org/x"]}

    assert checks.check_alerts() == []
