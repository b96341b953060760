"""Tell people of jobs that died or broke a limit: by log, by e-mail, or by a function of the project.

The calls are jobs themselves (``jobqueue.notify``), so a mail server that is down delays nothing and loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, mail_managers
from django.core.validators import validate_email
from django.utils.module_loading import import_string

from .conf import JobQueueSettings, get_settings
from .exceptions import ConfigurationError
from .outcomes import Outcome
from .redaction import mask_text

logger = logging.getLogger("jobqueue.notify")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What happened to a job; ``reason`` is "dead" (no attempt is left) or "limit" (a limit was broken)."""

    job_id: int
    job_type: str
    queue: str
    owner: str | None
    outcome: Outcome
    reason: Literal["dead", "limit"]
    error_class: str
    error_text: str
    attempts: int

    def to_json(self) -> dict[str, Any]:
        """Return the fields as the payload of the internal job holds them."""
        return asdict(self) | {"outcome": int(self.outcome)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Notification:
        """Build a notification from what to_json() returned."""
        return cls(**{**values, "outcome": Outcome(values["outcome"])})

    @property
    def summary(self) -> str:
        """Return one line: which job, and what became of it."""
        what = "is dead" if self.reason == "dead" else "broke a limit"
        return f"Job {self.job_id} ({self.job_type}) {what}: {self.outcome.label}"


@runtime_checkable
class Notifier(Protocol):
    """Anything that can tell people; an exception is logged and the notification tried again by its job."""

    def notify(self, event: Notification) -> None:
        """Tell of the event."""


class LogNotifier:
    """Write one warning to the logger ``jobqueue.notify``."""

    def notify(self, event: Notification) -> None:
        """Log ids and classes only: an error text may hold what a log must not."""
        logger.warning(
            "job needs attention job_id=%s job_type=%s queue=%s reason=%s outcome=%s error_class=%s attempts=%s",
            *(event.job_id, event.job_type, event.queue, event.reason),
            *(event.outcome.label, event.error_class, event.attempts),
        )


class EmailNotifier:
    """Write to the job's owner where that is an e-mail address, else to the project's MANAGERS."""

    def notify(self, event: Notification) -> None:
        """Send one message; raises what the mail backend raises."""
        body = _body(event)
        if event.owner and _is_address(event.owner):
            subject = f"{django_settings.EMAIL_SUBJECT_PREFIX}{event.summary}"
            EmailMessage(subject, body, to=[event.owner]).send()
        else:
            mail_managers(event.summary, body)


def _body(event: Notification) -> str:
    # Mail leaves the house and is kept for years: what looks like a secret in an error does not go with it.
    return (
        f"{event.summary}\n\nqueue: {event.queue}\nowner: {event.owner or '-'}\nattempts: {event.attempts}\n\n"
        f"{event.error_class}\n{mask_text(event.error_text)}\n"
    )


def _is_address(owner: str) -> bool:
    try:
        validate_email(owner)
    except ValidationError:
        return False
    return True


class CallableNotifier:
    """Call a function of the project with the Notification, by its dotted path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._function: Callable[[Notification], object] = import_string(path)
        if not callable(self._function):
            raise TypeError(f"{path} cannot be called")

    def notify(self, event: Notification) -> None:
        """Call the function; raises what it raises."""
        self._function(event)


def load_notifiers(settings: JobQueueSettings | None = None) -> list[Notifier]:
    """Return the notifiers that the setting NOTIFIERS names, in its order.

    A path names a class with ``notify(event)``, made without arguments, or a function that takes the event. Raises
    ConfigurationError naming the entry.
    """
    chosen = get_settings() if settings is None else settings
    return [_load(path) for path in chosen.NOTIFIERS]


def _load(path: str) -> Notifier:
    try:
        target = import_string(path)
        if not isinstance(target, type):
            return CallableNotifier(path)
        notifier = target()
    except (ImportError, TypeError) as error:
        raise ConfigurationError(f"JOBQUEUE['NOTIFIERS']: {path!r}: {error}") from error
    if not isinstance(notifier, Notifier):
        raise ConfigurationError(f"JOBQUEUE['NOTIFIERS']: {path!r} has no method notify(event)")
    return notifier
