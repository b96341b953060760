"""The rule of each setting by itself: a function that returns the value to keep, or raises ValueError with the rule."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from ipaddress import ip_network
from string import Formatter
from typing import Any, Final

from .alert_targets import addresses, alert_rules, alert_webhooks, link
from .budgets import budgets
from .exceptions import InvalidName
from .limits import MB, Limits
from .payloads import check_name

Rule = Callable[[Any], Any]

_DAY: Final = 86_400
#: What LOG_LINK may name; filled in by jobqueue.admin.hints.
LOG_FIELDS: Final = ("job_id", "job_type", "worker_id", "trace_id", "since", "until", "since_ms", "until_ms")
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_ALLOWED: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")


def number(low: float, high: float) -> Rule:
    """Return the rule for a number between two bounds, both allowed."""

    def rule(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number from {low} to {high}, not {type(value).__name__}")
        if not low <= value <= high:  # which NaN and infinity are not, either
            raise ValueError(f"must be from {low} to {high}")
        return value

    return rule


def whole(low: int, high: int) -> Rule:
    """Return the rule for a whole number between two bounds, both allowed."""

    def rule(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number from {low} to {high}, not {type(value).__name__}")
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return rule


def optional(rule: Rule) -> Rule:
    """Return the rule that allows None beside what another rule allows."""
    return lambda value: None if value is None else rule(value)


def flag(value: Any) -> bool:
    """Allow True and False only: the text "False" from an environment would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {type(value).__name__}")
    return value


def text(value: Any) -> str:
    """Allow a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a string, not empty")
    return value


def release(value: Any) -> str:
    """Allow the name of a release, of 100 printable characters at most, or "" for none."""
    if not isinstance(value, str) or len(value) > 100 or not value.isprintable():
        raise ValueError("must be a string of 100 printable characters at most")
    return value.strip()


def token(value: Any) -> str:
    """Allow a text long enough not to be guessed, of characters that fit an HTTP header."""
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]{16,}", value):
        raise ValueError("must be a string of 16 or more printable ASCII characters, without spaces")
    return value


def header(value: Any) -> str:
    """Allow the name of a header."""
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        msg = "must be the name of a header, X-Forwarded-For for example"
        raise ValueError(msg)
    return value


def log_link(value: Any) -> str:
    """Allow an absolute URL by http or https whose placeholders are those of LOG_FIELDS."""
    address = link(value)
    try:
        fields = [part[1:] for part in Formatter().parse(address) if part[1] is not None]
    except ValueError as error:
        msg = f"cannot be filled in ({error}); a brace of its own is written twice"
        raise ValueError(msg) from error
    for name, form, conversion in fields:
        if name not in LOG_FIELDS or form or conversion:
            raise ValueError(f"knows {', '.join(f'{{{known}}}' for known in LOG_FIELDS)}, not {{{name}}}")
    return address


def texts(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of strings; a single string is refused, it would be read letter by letter."""
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list or tuple of strings")
    return tuple(text(item) for item in value)


def one_or_more_texts(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of at least one string."""
    if not (found := texts(value)):
        raise ValueError("must name at least one")
    return found


def patterns(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of regular expressions."""
    found = texts(value)
    for item in found:
        try:
            re.compile(item)
        except re.error as error:
            raise ValueError(f"{item!r} is no regular expression: {error}") from error
    return found


def limits(value: Any) -> Mapping[str, Any]:
    """Allow a Limits or a dict of its fields; None as a value in the dict is kept, it lifts a limit."""
    if isinstance(value, Limits):
        return value.given()
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a Limits or a dict of limits, not {type(value).__name__}")
    Limits.from_json(value)
    return dict(value)


def limits_by_type(value: Any) -> Mapping[str, Mapping[str, Any]]:
    """Allow a dict from job types to limits."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from job types to limits, not {type(value).__name__}")
    found = {}
    for job_type, item in value.items():
        try:
            found[check_name("job type", job_type)] = limits(item)
        except InvalidName:
            raise
        except ValueError as error:
            raise ValueError(f"{job_type}: {error}") from error
    return found


def amount(high: Decimal) -> Rule:
    """Return the rule for an amount of money from 0 to below a bound, kept as a Decimal: given as one, text or int."""

    def rule(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
            allowed = f"must be from 0 to below {high}, as text, a Decimal or an int"
            raise ValueError(f"{allowed}, not {type(value).__name__}: a float's cents are not exact")
        try:
            found = Decimal(value)
        except InvalidOperation:
            raise ValueError(f"must be from 0 to below {high}, and {value!r} is no amount") from None
        if not found.is_finite() or not 0 <= found < high:
            raise ValueError(f"must be from 0 to below {high}")
        return found

    return rule


_PRICES: Final = ("cpu_second", "gb_second", "call")
_price: Final = amount(Decimal(10**6))


def rates(value: Any) -> Mapping[str, Mapping[str, Any]]:
    """Allow a dict from job types, or "*", to a dict with a price per cpu_second, gb_second or call, and a unit."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from job types to rates, not {type(value).__name__}")
    return {name if name == "*" else check_name("job type", name): _rate(name, item) for name, item in value.items()}


def _rate(name: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, Mapping) or not set(item) & set(_PRICES) or set(item) - {*_PRICES, "unit"}:
        raise ValueError(f"{name}: a rate is a dict with {', '.join(_PRICES)} (one of them at least) and unit")
    found: dict[str, Any] = {}
    for key, rule in (*((key, _price) for key in _PRICES), ("unit", optional(text))):
        try:
            found[key] = rule(item.get(key, None if key == "unit" else 0))  # no unit: the first of COST_UNITS
        except ValueError as error:
            raise ValueError(f"{name}: {key} {error}") from error
    return found


def queue_name(value: Any) -> str:
    """Allow what a queue may be called."""
    return check_name("queue", value)


def webhook_secrets(value: Any) -> Mapping[str, tuple[str, ...]]:
    """Allow a dict from names to one secret or a list of them, as Standard Webhooks writes them; never names one."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from names to secrets, not {type(value).__name__}")
    found = {}
    for name, given in value.items():
        secrets = (given,) if isinstance(given, str) else given
        if not isinstance(name, str) or not isinstance(secrets, list | tuple) or not secrets:
            raise ValueError("each name has one secret, or a list of them of which the first is the newest")
        for secret in secrets:
            _check_secret(name, secret)
        found[name] = tuple(secrets)
    return found


def _check_secret(name: str, secret: Any) -> None:
    problem = f'{name}: a secret is "whsec_" and the base64 of 24 to 64 random bytes'
    if not isinstance(secret, str):
        raise ValueError(f"{problem}, not {type(secret).__name__}")
    text = secret.removeprefix("whsec_")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise ValueError(f"{problem}, this is no base64") from None
    if not 24 <= len(key) <= 64:
        raise ValueError(f"{problem}, not of {len(key)}")


def webhook_allow(value: Any) -> tuple[str, ...]:
    """Allow host names, names with a leading "*." for all below, addresses and networks."""
    found = texts(value)
    for item in found:
        if "/" in item or ":" in item:
            try:
                ip_network(item)
            except ValueError as error:
                raise ValueError(f"{item!r} is no network: {error}") from error
        elif not _ALLOWED.fullmatch(item):
            raise ValueError(f"{item!r} is no host name, address or network: neither a scheme nor a port belongs to it")
    return tuple(item.lower() for item in found)


def mail_backend(value: Any) -> str:
    """Allow the path of a mail backend, but not of the one that would enqueue the mail again."""
    if text(value) == "jobqueue.mail.JobQueueEmailBackend":
        raise ValueError("is what sends the enqueued mails, so it cannot be the backend that enqueues them")
    return str(value)


RULES: Final[Mapping[str, Rule]] = {
    "LEASE_SECONDS": number(5, 3600),
    "DEADLINE_SECONDS": number(1, 30 * _DAY),
    "STUCK_AFTER_SECONDS": number(1, 365 * _DAY),
    "MAX_ATTEMPTS": whole(1, 32_767),
    "PRIORITY": whole(-32_768, 32_767),
    "BACKOFF_BASE_SECONDS": number(0, 366 * _DAY),
    "BACKOFF_FACTOR": number(1, 1000),
    "BACKOFF_CAP_SECONDS": number(0, 366 * _DAY),
    "INTERRUPTION_BUDGET": whole(0, 10_000),
    "POLL_SECONDS": number(0.01, 3600),
    "MAINTENANCE_SECONDS": number(0.01, 3600),
    "SHUTDOWN_TIMEOUT": number(0, _DAY),
    "KILL_GRACE": number(0, 600),
    "PROCESSES": optional(whole(1, 1024)),
    "THREADS": whole(1, 1024),
    "CHILD_MAX_JOBS": whole(1, 2**31),
    "CHILD_MAX_BYTES": whole(32 * MB, 2**50),
    # One message to a child holds a payload: beyond this it is a file, and its path belongs into the payload.
    "PAYLOAD_MAX_BYTES": whole(2, 64 * MB),
    "RESULT_MAX_BYTES": whole(4, 64 * MB),
    "ERROR_MAX_BYTES": whole(256, MB),
    "RETENTION_DONE_SECONDS": optional(number(0, 3650 * _DAY)),
    "RETENTION_CANCELLED_SECONDS": optional(number(0, 3650 * _DAY)),
    "RETENTION_DEAD_SECONDS": optional(number(0, 3650 * _DAY)),
    "RETENTION_STATISTICS_SECONDS": optional(number(_DAY, 3650 * _DAY)),
    "NOTIFY": flag,
    "LISTEN_DSN": optional(text),
    "PREPARED": flag,
    "ASYNC_CLAIMS": flag,
    "STATEMENT_TIMEOUT": number(0.1, 3600),
    "LIMITS": limits_by_type,
    "DEFAULT_LIMITS": limits,
    "NOTIFIERS": texts,
    "COST_UNITS": one_or_more_texts,
    "COST_PATH": text,
    "COST_REFUND_MAX": amount(Decimal(10**12)),
    "RATES": rates,
    "BUDGETS": budgets,
    "SECRET_PATTERNS": patterns,
    "ALERTS": alert_rules,
    "ALERT_SECONDS": number(1, 3600),
    "ALERT_EMAILS": addresses,
    "ALERT_WEBHOOKS": alert_webhooks,
    "ALERT_LINK": optional(link),
    "LOG_LINK": optional(log_link),
    "RELEASE": release,
    "DATABASE": optional(text),
    "UNKNOWN_TYPE_RETRY_SECONDS": number(0.1, 3600),
    "UNKNOWN_TYPE_DEAD_SECONDS": number(0, 30 * _DAY),
    "OPS_TOKEN": optional(token),
    "HEALTH_OPEN": flag,
    "ADDRESS_HEADER": optional(header),
    "READY_CLAIM_SECONDS": number(5, _DAY),
    "READY_NEEDS_WORKER": flag,
    "TRACING": flag,
    "WEBHOOK_SECRETS": webhook_secrets,
    "WEBHOOK_ALLOW": webhook_allow,
    "WEBHOOK_HTTP": flag,
    "WEBHOOK_MAX_BYTES": whole(64, 64 * MB),
    "WEBHOOK_CONNECT_SECONDS": number(0.1, 60),
    "WEBHOOK_READ_SECONDS": number(0.1, 240),
    # Below the deadline of the job type, 300 s: the handler itself is to write down what happened.
    "WEBHOOK_TOTAL_SECONDS": number(0.1, 240),
    "WEBHOOK_PER_HOST": whole(1, 1000),
    "MAIL_QUEUE": queue_name,
    "MAIL_BACKEND": optional(mail_backend),
}
