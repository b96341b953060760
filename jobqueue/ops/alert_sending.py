"""Send what is to be told of incidents: through the outbox by a worker, or at once where no worker can be relied on.

A message goes to every address of ALERT_EMAILS and every webhook of ALERT_WEBHOOKS. Whoever sends holds the incident's
row, so a message is told once; only a process that dies between sending and its commit tells it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.mail import EmailMessage
from django.db import transaction

from jobqueue import outbox
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, JobQueueError
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.models import Incident
from jobqueue.models.expressions import StatementTimestamp

from .alert_messages import RESOLVED, AlertMessage, untold_messages

logger = logging.getLogger("jobqueue.alerts")


@dataclass(slots=True)
class Sent:
    """How many messages were accepted by somebody, and what went wrong with a target, for people to read."""

    messages: int = 0
    failures: list[str] = field(default_factory=list)


def has_targets() -> bool:
    """Tell whether anybody is to be told, beside the log."""
    settings = get_settings()
    return bool(settings.ALERT_EMAILS or settings.ALERT_WEBHOOKS)


def deliverable(hook: Any) -> None:
    """Raise JobQueueError where a webhook of ALERT_WEBHOOKS could never be sent: its address, its secret, the extra."""
    from jobqueue.outbox.messages import MISSING, new_message  # noqa: PLC0415 - late, see outbox/__init__.py

    if find_spec("httpx") is None or find_spec("standardwebhooks") is None:
        raise ConfigurationError(MISSING)
    new_message(hook["url"], RESOLVED, {}, secret=hook["secret"])


def tell(incident: Incident, event: str) -> None:
    """Write an event of an incident to the log."""
    level = logging.INFO if event == RESOLVED else logging.WARNING
    words = "resolved" if event == RESOLVED else "firing"
    fields = (words, incident.pk, incident.rule, incident.subject or "-", incident.value, incident.text)
    logger.log(level, "alert %s incident=%s rule=%s subject=%s value=%s text=%s", *fields)


def enqueue_messages(incident_id: int, *, using: str) -> int:
    """Enqueue what is untold of an incident, one job a target, and mark it told, in the caller's transaction.

    Returns how many messages that were: none where somebody else was quicker. Raises JobQueueError where no target can
    be one; where only some cannot, the log tells, and the others hear of it.
    """
    incident = _held(incident_id, using)
    messages = [] if incident is None else untold_messages(incident)
    for message in messages:
        targets = _targets(message, using=using, now=False)
        refused = [error for target in targets if (error := _refused(target)) is not None]
        if refused and len(refused) == len(targets):
            raise refused[0]
    if incident is not None:
        _mark(incident, messages, using)
    return len(messages)


def send_messages(incident_id: int, *, using: str) -> Sent:
    """Send what is untold of an incident at once, in this process; a target that fails gets it by the outbox.

    It counts as told when one target has accepted it, else the next call tries again.
    """
    sent = Sent()
    with transaction.atomic(using=using):
        incident = _held(incident_id, using)
        messages = [] if incident is None else untold_messages(incident)
        told = []
        for message in messages:
            targets = _targets(message, using=using, now=True)
            failed = [target for target in targets if not _sent(target, sent)]
            if len(failed) == len(targets):
                break  # nobody has heard of it, so nobody is to hear of its end before
            told.append(message)
            for target in failed:
                _refused(target)
        if incident is not None and told:
            _mark(incident, told, using)
        sent.messages = len(told)
    return sent


def send_at_once(message: AlertMessage) -> Sent:
    """Send one message to all targets in this process, without the database."""
    sent = Sent()
    targets = _targets(message, using="", now=True)
    accepted = [target for target in targets if _sent(target, sent)]
    sent.messages = int(bool(accepted))
    return sent


@dataclass(frozen=True, slots=True)
class _Target:
    """Where one message goes, as people read it, how it is sent, and how it is enqueued instead."""

    name: str
    send: Callable[[], object]
    later: Callable[[], object]


def _targets(message: AlertMessage, *, using: str, now: bool) -> list[_Target]:
    settings, found = get_settings(), list[_Target]()
    if settings.ALERT_EMAILS:
        mail = _mail(message, settings.ALERT_EMAILS)
        # Not to MAIL_QUEUE: an alert must not wait behind the project's mails, or for a queue that is paused.
        later = partial(outbox.send_mail, mail, queue=INTERNAL_QUEUE, priority=0, using=using)
        found.append(_Target("mail", partial(outbox.deliver_mail, [mail]) if now else later, later))
    for hook in settings.ALERT_WEBHOOKS:
        arguments = _webhook(message, hook)
        later = partial(outbox.send_webhook, **arguments, priority=0, using=using)
        found.append(_Target(_host(hook), partial(outbox.deliver_webhook, **arguments) if now else later, later))
    return found


def _webhook(message: AlertMessage, hook: Any) -> dict[str, Any]:
    slack = hook["format"] == "slack"
    return {
        "url": hook["url"],
        "event": message.event,
        "data": message.slack() if slack else message.data,
        "secret": hook["secret"],
        "envelope": not slack,
    }


def _mail(message: AlertMessage, addresses: Sequence[str]) -> EmailMessage:
    subject = f"{django_settings.EMAIL_SUBJECT_PREFIX}{message.subject}"
    return EmailMessage(subject, message.body, django_settings.SERVER_EMAIL, list(addresses))


def _host(hook: Any) -> str:
    """Return a webhook's name for a log: the path of a chat's hook is a secret."""
    return f"webhook {urlsplit(hook['url']).netloc.rpartition('@')[2]}"


def _sent(target: _Target, sent: Sent) -> bool:
    try:
        target.send()
    except Exception as error:  # noqa: BLE001 - a mail backend may raise anything; the next target must hear of it
        text = f"{target.name}: {type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        logger.warning("alert not sent target=%s", text)
        sent.failures.append(text)
        return False
    return True


def _refused(target: _Target) -> JobQueueError | None:
    """Enqueue a message for one target; return what its settings break, which is found before any SQL."""
    try:
        target.later()
    except JobQueueError as error:
        logger.warning("alert not enqueued target=%s error=%s", target.name, error)
        return error
    return None


def _held(incident_id: int, using: str) -> Incident | None:
    rows = Incident.objects.using(using).select_for_update(of=("self",))
    return rows.filter(pk=incident_id, untold=True).first()


def _mark(incident: Incident, told: Sequence[AlertMessage], using: str) -> None:
    now: Any = StatementTimestamp()
    changes: dict[str, Any] = {
        "resolved_told_at" if message.event == RESOLVED else "fired_told_at": now for message in told
    }
    over = incident.state == Incident.State.RESOLVED
    # A firing one that is told has nothing more to tell before it ends.
    changes["untold"] = over and "resolved_told_at" not in changes and incident.resolved_told_at is None
    Incident.objects.using(using).filter(pk=incident.pk).update(**changes)
