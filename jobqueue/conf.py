"""The settings: one frozen dataclass built from ``JOBQUEUE`` in Django's settings, and the rule of each value.

Unknown keys and values that break their rule raise ConfigurationError at the first use; relations between values are
``problems()``, which the system checks report. Everything reads ``get_settings()`` inside a function, so that tests
may override settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from .budgets import BudgetTerms
from .exceptions import ConfigurationError
from .limits import MB, Limits, merge_values
from .rules import RULES

_DAY: Final = 86_400

SECRET_PATTERNS: Final = (
    *("passw", "passphrase", "pwd", "secret", "token(?!iz)(?!error)", "api[._-]?key", "access[._-]?key"),
    *("private[._-]?key", "signing[._-]?key", "authorization", "(?<![a-z])auth(?![a-z])", "cookie", "credential"),
    *("session[._-]?id", "signature", "jwt", "csrf"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueSettings:
    """Every setting with its default; bounds are in rules.py, seconds may be fractions."""

    LEASE_SECONDS: float = 120  # renewed every third
    DEADLINE_SECONDS: float = 300  # of a job type that names no duration
    STUCK_AFTER_SECONDS: float = 600
    MAX_ATTEMPTS: int = 3
    PRIORITY: int = 100
    BACKOFF_BASE_SECONDS: float = 5
    BACKOFF_FACTOR: float = 2
    BACKOFF_CAP_SECONDS: float = 600
    INTERRUPTION_BUDGET: int = 10
    POLL_SECONDS: float = 1
    MAINTENANCE_SECONDS: float = 1
    SHUTDOWN_TIMEOUT: float = 25
    KILL_GRACE: float = 1
    PROCESSES: int | None = None  # None: as many as cores
    THREADS: int = 1
    CHILD_MAX_JOBS: int = 10_000
    CHILD_MAX_BYTES: int = 512 * MB
    PAYLOAD_MAX_BYTES: int = MB
    RESULT_MAX_BYTES: int = MB
    ERROR_MAX_BYTES: int = 16 * 1024
    RETENTION_DONE_SECONDS: float | None = 7 * _DAY  # None: kept
    RETENTION_CANCELLED_SECONDS: float | None = 7 * _DAY
    RETENTION_DEAD_SECONDS: float | None = None
    RETENTION_STATISTICS_SECONDS: float | None = 396 * _DAY  # of statistics, costs, counters and incidents: 13 months
    NOTIFY: bool = True
    LISTEN_DSN: str | None = None
    PREPARED: bool = True
    ASYNC_CLAIMS: bool = False
    STATEMENT_TIMEOUT: float = 10
    LIMITS: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    DEFAULT_LIMITS: Mapping[str, Any] = field(default_factory=dict)
    NOTIFIERS: tuple[str, ...] = ("jobqueue.notifiers.LogNotifier",)
    COST_UNITS: tuple[str, ...] = ("USD",)
    COST_PATH: str = "metrics.cost.total_usd"
    COST_REFUND_MAX: Decimal = Decimal(0)  # of one call of add_cost()
    RATES: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by job type, "*" for those without
    BUDGETS: Mapping[str, BudgetTerms] = field(default_factory=dict)  # by name
    # Names whose values are hidden in messages and on pages; found anywhere in a name, upper and lower case alike.
    SECRET_PATTERNS: tuple[str, ...] = SECRET_PATTERNS
    ALERTS: Mapping[str, Any] = field(default_factory=dict)
    ALERT_SECONDS: float = 15
    ALERT_EMAILS: tuple[str, ...] = ()
    # Not shown by repr(): the address of a chat's hook is all that one needs to write there.
    ALERT_WEBHOOKS: tuple[str | Mapping[str, Any], ...] = field(default=(), repr=False)
    ALERT_LINK: str | None = None
    LOG_LINK: str | None = None  # an address with {job_id} and the like
    RELEASE: str = ""  # of the project, for the marks of deploys on charts
    DATABASE: str | None = None  # None: where the router sends jobs
    UNKNOWN_TYPE_RETRY_SECONDS: float = 5
    UNKNOWN_TYPE_DEAD_SECONDS: float = 600
    OPS_TOKEN: str | None = field(default=None, repr=False)  # of a bearer; None: staff only
    HEALTH_OPEN: bool = False
    ADDRESS_HEADER: str | None = None  # None: who connects is who asks
    READY_CLAIM_SECONDS: float = 60
    READY_NEEDS_WORKER: bool = False
    TRACING: bool = False
    # Not shown by repr(): a debug page or a log line with the settings must not hold them.
    WEBHOOK_SECRETS: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    WEBHOOK_ALLOW: tuple[str, ...] = ()
    WEBHOOK_HTTP: bool = False
    WEBHOOK_MAX_BYTES: int = 256 * 1024
    WEBHOOK_CONNECT_SECONDS: float = 5
    WEBHOOK_READ_SECONDS: float = 15
    WEBHOOK_TOTAL_SECONDS: float = 30
    WEBHOOK_PER_HOST: int = 4
    MAIL_QUEUE: str = "jobqueue"
    MAIL_BACKEND: str | None = None  # None: EMAIL_BACKEND, or SMTP where that is JobQueueEmailBackend

    @property
    def lease(self) -> timedelta:
        """Return how long a worker holds a job without renewing."""
        return timedelta(seconds=self.LEASE_SECONDS)

    @property
    def renew_interval(self) -> timedelta:
        """Return the time between two renewals, a third of the lease."""
        return self.lease / 3

    @property
    def lease_margin(self) -> timedelta:
        """Return how long before the end of a lease that could not be renewed its job is stopped."""
        return max(timedelta(seconds=1), self.lease / 10)

    @property
    def statement_timeout(self) -> timedelta:
        """Return the longest time for a statement of the worker: no longer than half a lease, whatever is set."""
        return min(timedelta(seconds=self.STATEMENT_TIMEOUT), self.lease / 2)

    def changed(self, **changes: object) -> JobQueueSettings:
        """Return settings with some values replaced, by the same rules; raises ConfigurationError."""
        return replace(self, **_checked(changes))


_NAMES: Final = frozenset(setting.name for setting in fields(JobQueueSettings))
_SECRET: Final = frozenset(setting.name for setting in fields(JobQueueSettings) if not setting.repr)


def build(values: Mapping[str, object]) -> JobQueueSettings:
    """Return the settings that a JOBQUEUE dict gives; raises ConfigurationError naming key, value and rule."""
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"JOBQUEUE must be a dict, not {values!r}")
    return JobQueueSettings(**_checked(values))


def _checked(values: Mapping[str, object]) -> dict[str, Any]:
    if unknown := sorted(str(key) for key in values if key not in _NAMES):
        raise ConfigurationError(f"JOBQUEUE: unknown key {', '.join(unknown)}; known are {', '.join(sorted(_NAMES))}")
    checked = {}
    for key, value in values.items():
        try:
            checked[key] = RULES[key](value)
        except ValueError as error:
            shown = "…" if key in _SECRET else repr(value)
            # Without its cause where that is secret: a traceback prints it as well.
            raise ConfigurationError(f"JOBQUEUE[{key!r}] = {shown}: {error}") from (None if key in _SECRET else error)
    return checked


@cache
def get_settings() -> JobQueueSettings:
    """Return the settings in force; raises ConfigurationError where JOBQUEUE is wrong."""
    return build(getattr(django_settings, "JOBQUEUE", {}))


def _forget(*, setting: str, **_kwargs: object) -> None:
    if setting == "JOBQUEUE":
        get_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="jobqueue.conf")


def lease() -> timedelta:
    """Return how long a worker holds a job without renewing."""
    return get_settings().lease


def deadline() -> timedelta:
    """Return the longest run of a job type that names no duration."""
    return timedelta(seconds=get_settings().DEADLINE_SECONDS)


def stuck_after() -> timedelta:
    """Return how long after its start a run is called stuck at the earliest."""
    return timedelta(seconds=get_settings().STUCK_AFTER_SECONDS)


def limits_for(job_type: str, declared: Limits) -> Limits:
    """Return the limits in force for a job type: the operator's own for it, else declared, else the defaults.

    An explicit None in LIMITS lifts a limit. A duration there always is: at the last DEADLINE_SECONDS.
    """
    settings = get_settings()
    values = merge_values(merge_values(settings.DEFAULT_LIMITS, declared.given()), settings.LIMITS.get(job_type, {}))
    if values.get("duration") is None:
        values["duration"] = settings.DEADLINE_SECONDS
    return Limits(**values)


class Problem(NamedTuple):
    """Settings that contradict each other; ``fatal`` ones keep the worker from doing what it promises."""

    text: str
    fatal: bool


def problems(settings: JobQueueSettings) -> list[Problem]:
    """Return the relations between settings that do not hold."""
    return [*_fatal_problems(settings), *_doubtful_problems(settings)]


def _fatal_problems(settings: JobQueueSettings) -> Iterator[Problem]:
    margin, lease_seconds = settings.lease_margin.total_seconds(), settings.LEASE_SECONDS
    if settings.KILL_GRACE + margin >= lease_seconds * 2 / 3:
        text = (
            f"KILL_GRACE ({settings.KILL_GRACE:g} s) and the margin before the end of a lease ({margin:g} s) do not "
            f"fit into what a late renewal leaves of LEASE_SECONDS ({lease_seconds:g} s): a job could run on after "
            "its lease"
        )
        yield Problem(text, fatal=True)
    if settings.BACKOFF_CAP_SECONDS < settings.BACKOFF_BASE_SECONDS:
        cap, base = settings.BACKOFF_CAP_SECONDS, settings.BACKOFF_BASE_SECONDS
        yield Problem(f"BACKOFF_CAP_SECONDS ({cap:g}) is below BACKOFF_BASE_SECONDS ({base:g})", fatal=True)
    if settings.UNKNOWN_TYPE_DEAD_SECONDS < settings.UNKNOWN_TYPE_RETRY_SECONDS:
        text = (
            f"UNKNOWN_TYPE_DEAD_SECONDS ({settings.UNKNOWN_TYPE_DEAD_SECONDS:g}) is below UNKNOWN_TYPE_RETRY_SECONDS "
            f"({settings.UNKNOWN_TYPE_RETRY_SECONDS:g}): a job of a type not deployed yet would get no second look"
        )
        yield Problem(text, fatal=True)
    for name, budget in settings.BUDGETS.items():
        if budget.unit not in settings.COST_UNITS:
            text = f"BUDGETS[{name!r}] is in {budget.unit!r}, which COST_UNITS {settings.COST_UNITS!r} does not name"
            yield Problem(text, fatal=True)
    for name, rate in settings.RATES.items():
        if rate["unit"] is not None and rate["unit"] not in settings.COST_UNITS:
            text = f"RATES[{name!r}] is in {rate['unit']!r}, which COST_UNITS {settings.COST_UNITS!r} does not name"
            yield Problem(text, fatal=True)


def _doubtful_problems(settings: JobQueueSettings) -> Iterator[Problem]:
    lease_seconds = settings.LEASE_SECONDS
    slow = {
        "STATEMENT_TIMEOUT": "a claim that takes that long brings jobs whose lease is over",
        "POLL_SECONDS": "without a notification a dead worker's jobs wait longer for the poll than for the lease",
        "MAINTENANCE_SECONDS": "expired leases wait longer to be noticed than to expire",
    }
    for key, effect in slow.items():
        if getattr(settings, key) >= lease_seconds:
            text = f"{key} ({getattr(settings, key):g} s) is not below LEASE_SECONDS ({lease_seconds:g} s): {effect}"
            yield Problem(text, fatal=False)
    if settings.STUCK_AFTER_SECONDS < settings.DEADLINE_SECONDS:
        text = (
            f"STUCK_AFTER_SECONDS ({settings.STUCK_AFTER_SECONDS:g}) is below DEADLINE_SECONDS "
            f"({settings.DEADLINE_SECONDS:g}) and has no effect: a run may last that long without being stuck"
        )
        yield Problem(text, fatal=False)
    beat = min(10.0, lease_seconds / 6)
    if 2 * beat > settings.READY_CLAIM_SECONDS:
        text = (
            f"READY_CLAIM_SECONDS ({settings.READY_CLAIM_SECONDS:g}) is below two heartbeats ({2 * beat:g} s): workers "
            "that are well would look as if they hung"
        )
        yield Problem(text, fatal=False)
    kept = settings.RETENTION_STATISTICS_SECONDS
    if kept is not None and kept < 31 * _DAY and any(budget.per == "month" for budget in settings.BUDGETS.values()):
        text = f"RETENTION_STATISTICS_SECONDS ({kept:g}) is less than a month: a budget by the month forgets its costs"
        yield Problem(text, fatal=False)
    if settings.LISTEN_DSN is not None and not settings.NOTIFY:
        yield Problem("LISTEN_DSN is set but NOTIFY is off: nobody sends what it listens for", fatal=False)
