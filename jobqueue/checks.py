"""System checks: what would make jobs wait, fail or run twice is said before the first one is enqueued.

Two tags. ``jobqueue`` looks at settings only. ``jobqueue_handlers`` imports the handler modules: the worker's
supervisor runs no code of the project, so it must leave this tag to its children.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps
from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from . import tracing
from .conf import JobQueueSettings, get_settings, problems
from .exceptions import ConfigurationError, JobQueueError
from .notifiers import load_notifiers
from .registry import registry

TAG: Final = "jobqueue"
HANDLERS_TAG: Final = "jobqueue_handlers"


def _settings() -> JobQueueSettings | None:
    # Where they are wrong check_settings() says so; the others have nothing to look at.
    try:
        return get_settings()
    except ConfigurationError:
        return None


def _models() -> list[Any]:
    return list(apps.get_app_config("jobqueue").get_models())


def jobs_alias() -> str:
    """Return the alias of the database that holds the jobs."""
    settings = _settings()
    if settings is not None and settings.DATABASE is not None:
        return settings.DATABASE
    models = _models()
    return router.db_for_write(models[0]) if models else "default"


@register(TAG)
def check_settings(**_kwargs: Any) -> list[CheckMessage]:
    """Report values that break their rule, and values that contradict each other."""
    try:
        settings = get_settings()
    except ConfigurationError as error:
        return [Error(str(error), id="jobqueue.E003")]
    return [
        Error(problem.text, id="jobqueue.E004") if problem.fatal else checks.Warning(problem.text, id="jobqueue.W004")
        for problem in problems(settings)
    ]


@register(TAG)
def check_database(**_kwargs: Any) -> list[CheckMessage]:
    """Report an alias that does not exist, an engine that is not PostgreSQL, and an old driver."""
    alias = jobs_alias()
    if alias not in django_settings.DATABASES:
        known = ", ".join(sorted(django_settings.DATABASES))
        return [Error(f"the database of the jobs is {alias!r}, DATABASES has {known}", id="jobqueue.E008")]
    try:
        vendor = connections[alias].vendor
    except ImproperlyConfigured as error:
        return [Error(f"database {alias!r} cannot be used: {error}", id="jobqueue.E002")]
    if vendor != "postgresql":
        hint = "Point JOBQUEUE['DATABASE'] or a database router at a PostgreSQL database."
        return [Error(f"jobs need PostgreSQL, database {alias!r} is {vendor}", hint=hint, id="jobqueue.E001")]
    return _check_driver()


def _check_driver() -> list[CheckMessage]:
    # This module of Django cannot be imported where no driver is installed.
    from django.db.backends.postgresql.psycopg_any import is_psycopg3  # noqa: PLC0415

    if is_psycopg3:
        return []
    return [Error("jobs need psycopg 3, not psycopg2", hint="pip install 'jobqueue[binary]'", id="jobqueue.E002")]


@register(TAG)
def check_router(**_kwargs: Any) -> list[CheckMessage]:
    """Report routers that would part the tables of jobs, or write them elsewhere than the worker reads.

    Reading from a replica is fine: only lists and charts follow the router there.
    """
    alias, found = jobs_alias(), list[CheckMessage]()
    for model in _models():
        chosen = router.db_for_write(model)
        if chosen != alias:
            text = f"the database router writes {model.__name__} to {chosen!r}, the jobs are in {alias!r}"
            found.append(Error(text, hint="All tables of jobqueue must be in one database.", id="jobqueue.E009"))
        elif alias in django_settings.DATABASES and not router.allow_migrate_model(alias, model):
            text = f"the database router does not let {model.__name__} migrate to {alias!r}, where the jobs are"
            found.append(Error(text, id="jobqueue.E009"))
    return found


@register(TAG)
def check_time_zone(**_kwargs: Any) -> list[CheckMessage]:
    """Report USE_TZ = False: naive local times compared with the server's would reap jobs that are hours young."""
    if django_settings.USE_TZ:
        return []
    return [
        Error("jobs need USE_TZ = True: leases and run_after are compared with the server's time", id="jobqueue.E005")
    ]


@register(TAG)
def check_tracing(**_kwargs: Any) -> list[CheckMessage]:
    """Report tracing without OpenTelemetry: the first enqueue would fail."""
    settings = _settings()
    if settings is None or not settings.TRACING or tracing.is_installed():
        return []
    hint = "pip install 'jobqueue[otel]', or turn JOBQUEUE['TRACING'] off"
    return [Error("JOBQUEUE['TRACING'] needs OpenTelemetry", hint=hint, id="jobqueue.E012")]


@register(TAG)
def check_alerts(**_kwargs: Any) -> list[CheckMessage]:
    """Report variables of alert rules that cannot be read, and webhooks that no alert could be sent to."""
    # This module is imported wherever Django starts, children of a worker too, which need none of that floor.
    from .ops.alert_rules import environment_problems  # noqa: PLC0415
    from .ops.alert_sending import deliverable  # noqa: PLC0415

    settings = _settings()
    if settings is None:
        return []
    found = environment_problems()
    for hook in settings.ALERT_WEBHOOKS:
        try:
            deliverable(hook)
        except JobQueueError as error:
            found.append(f"JOBQUEUE['ALERT_WEBHOOKS']: {error}")
    return [Error(text, id="jobqueue.E013") for text in found]


@register(HANDLERS_TAG)
def check_handlers(**_kwargs: Any) -> list[CheckMessage]:
    """Report job types declared twice, modules that cannot be imported, and limits of unknown job types."""
    found: list[CheckMessage] = []
    for problem in registry.problems():
        if problem.kind == "duplicate":
            found.append(Error(problem.text, id="jobqueue.E006"))
        else:
            found.append(_import_warning(problem.subject, problem.text))
    settings = _settings()
    return (
        found
        + [
            checks.Warning(f"JOBQUEUE[{key!r}] names {name!r}, which no handler has", id="jobqueue.W011")
            for key in ("LIMITS", "RATES")
            for name in sorted(getattr(settings, key, ()))
            if name not in registry and (key, name) != ("RATES", "*")
        ]
        + [
            checks.Warning(f"JOBQUEUE['BUDGETS'][{budget.name!r}] is of {budget.job_type!r}, {why}", id="jobqueue.W011")
            for budget in (settings.BUDGETS.values() if settings else ())
            if budget.job_type and (why := _no_type_of_costs(budget.job_type))
        ]
    )


def _no_type_of_costs(job_type: str) -> str:
    """Return why no cost is ever booked under this name, empty where some may be."""
    if job_type not in registry:
        return "which no handler has"
    name = registry.get(job_type).name
    return "" if name == job_type else f"an alias: costs are booked under {name!r}"


def _import_warning(module: str, text: str) -> CheckMessage:
    # A warning: an error would keep the admin and every command from starting, for jobs that may never come.
    reason = text.strip().splitlines()[-1] if text.strip() else "unknown error"
    hint = "Its jobs fail with this error until it can be imported; all others run."
    return checks.Warning(f"handler module {module} cannot be imported: {reason}", hint=hint, id="jobqueue.W007")


@register(HANDLERS_TAG)
def check_notifiers(**_kwargs: Any) -> list[CheckMessage]:
    """Report notifiers that cannot be loaded."""
    settings = _settings()
    if settings is None:
        return []
    try:
        load_notifiers(settings)
    except ConfigurationError as error:
        return [Error(str(error), id="jobqueue.E010")]
    return []
