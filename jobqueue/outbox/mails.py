"""E-mail as jobs: the message's own bytes travel in the payload, and are what is sent in the end.

Date and Message-ID are made at the call, so every attempt sends the same message, and a receiver knows a repeated one
by its Message-ID. The envelope's recipients are kept apart: those of Bcc are in no header.
"""

from __future__ import annotations

import base64
import email.policy
import re
import smtplib
from collections.abc import Mapping, Sequence
from email import message_from_bytes
from email.message import EmailMessage as ParsedMessage
from typing import TYPE_CHECKING, Any, Final, cast

from django.conf import settings as django_settings
from django.core import mail
from django.core.mail import EmailAlternative, EmailMultiAlternatives

from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, Dead, JobQueueError
from jobqueue.managers.arriving import JobSpec
from jobqueue.models import Job

if TYPE_CHECKING:
    from django.core.mail import EmailMessage
    from django.core.mail.backends.base import BaseEmailBackend

MAIL: Final = "jobqueue.mail"
QUEUEING_BACKEND: Final = "jobqueue.mail.JobQueueEmailBackend"
SMTP_BACKEND: Final = "django.core.mail.backends.smtp.EmailBackend"
#: Without EMAIL_TIMEOUT Django waits for ever, and with it the alerts' command, each minute another one.
SMTP_SECONDS: Final = 60


def send_mail(
    message: EmailMessage, *, queue: str | None = None, priority: int | None = None, using: str | None = None
) -> Job | None:
    """Enqueue one message in the caller's transaction; None where it has no recipients.

    `queue` is JOBQUEUE["MAIL_QUEUE"] where it is not given, `using` the alias of the jobs' database. Raises
    PayloadError where the message does not fit into JOBQUEUE["PAYLOAD_MAX_BYTES"], and what Django raises for headers
    that cannot be.
    """
    if not message.recipients():
        return None
    manager = Job.objects if using is None else Job.objects.db_manager(using)
    queue = queue or get_settings().MAIL_QUEUE
    return manager.enqueue(MAIL, mail_payload(message), queue=queue, priority=priority)


def mail_specs(messages: Sequence[EmailMessage]) -> list[JobSpec]:
    """Return the jobs of all messages that have recipients."""
    queue = get_settings().MAIL_QUEUE
    return [
        JobSpec(job_type=MAIL, payload=mail_payload(message), queue=queue)
        for message in messages
        if message.recipients()
    ]


def enqueue_mails(specs: Sequence[JobSpec]) -> list[Job | None]:
    """Enqueue all of them or none; the usual single one in one round trip."""
    if len(specs) != 1:
        return Job.objects.enqueue_many(specs)
    return [Job.objects.enqueue(specs[0].job_type, specs[0].payload, queue=specs[0].queue)]


def mail_payload(message: EmailMessage) -> dict[str, Any]:
    """Return a message as a job's payload holds it; subject and recipients stand there for people to read."""
    return {
        "subject": " ".join(str(message.subject).split())[:200],
        "from": message.from_email,
        "recipients": [str(recipient) for recipient in message.recipients()],
        "message": base64.b64encode(message.message().as_bytes()).decode(),
    }


def run_mail(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Send one message; what is returned is kept as the job's result.

    Raises Dead where the server refuses this message for good, else whatever the mail backend raises.
    """
    message = stored_message(payload)
    try:
        deliver_mail([message])
    except smtplib.SMTPResponseException as error:
        # Another answer (to EHLO, to the password) is about the server or the settings: that may be mended.
        if isinstance(error, smtplib.SMTPDataError | smtplib.SMTPSenderRefused) and error.smtp_code >= 500:
            raise Dead(f"the mail server refuses the message: {_answer(error.smtp_code, error.smtp_error)}") from error
        raise
    except smtplib.SMTPRecipientsRefused as error:
        answers = list(error.recipients.values())
        if answers and all(code >= 500 for code, _ in answers):
            raise Dead(f"the mail server refuses every recipient: {_answer(*answers[0])}") from error
        raise
    return {"recipients": len(message.recipients()), "message_id": message.stored["Message-ID"]}


def _answer(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"


def deliver_mail(messages: Sequence[EmailMessage]) -> None:
    """Send messages at once, in this process, whatever EMAIL_BACKEND is. Raises what the mail backend raises."""
    if _connection().send_messages(messages) == 0:
        msg = "the mail backend sent nothing, and did not say why"
        raise JobQueueError(msg)


def _connection() -> BaseEmailBackend:
    chosen = get_settings().MAIL_BACKEND
    named: dict[str, dict[str, Any]] | None = getattr(django_settings, "MAILERS", None)
    if named is not None and hasattr(mail, "mailers"):  # from Django 6.1 on backends have names
        name = chosen or "default"
        if named.get(name, {}).get("BACKEND") == QUEUEING_BACKEND:
            msg = f"JOBQUEUE['MAIL_BACKEND'] must name another of MAILERS: {name!r} enqueues"
            raise ConfigurationError(msg)
        return mail.mailers[name]
    backend = chosen or django_settings.EMAIL_BACKEND
    path = SMTP_BACKEND if backend == QUEUEING_BACKEND else backend
    patient = path == SMTP_BACKEND and getattr(django_settings, "EMAIL_TIMEOUT", None) is None
    options: dict[str, Any] = {"timeout": SMTP_SECONDS} if patient else {}
    return mail.get_connection(path, **options)


class StoredMessage(EmailMultiAlternatives):
    """A message as it was enqueued: its bytes are sent as they are.

    Backends that hand it to a service by HTTP find subject, texts, recipients and attachments in the usual fields.
    """

    def __init__(self, parsed: _Stored, *, sender: str, recipients: Sequence[str]) -> None:
        super().__init__(subject=str(parsed.get("Subject", "")), from_email=sender)
        self.stored, self._recipients = parsed, list(recipients)
        self.to, self.cc = _addresses(parsed, "To"), _addresses(parsed, "Cc")
        shown = {_bare(address) for address in (*self.to, *self.cc)}
        self.bcc = [address for address in self._recipients if _bare(address) not in shown]
        self.reply_to = _addresses(parsed, "Reply-To")
        self._fill()

    def _fill(self) -> None:
        plain, html = self.stored.get_body(("plain",)), self.stored.get_body(("html",))
        self.body = _text(plain)
        if html is not None and plain is not None:
            self.alternatives = [EmailAlternative(_text(html), "text/html")]
        elif html is not None:
            self.body, self.content_subtype = _text(html), "html"
        for part in self.stored.iter_attachments() if self.stored.is_multipart() else ():
            content = part.get_payload(decode=True) or b""
            self.attach(part.get_filename(), content, part.get_content_type())

    def recipients(self) -> list[str]:
        """Return those of the envelope."""
        return list(self._recipients)

    def message(self, *, policy: Any = None) -> Any:
        """Return the message as it was when it was enqueued, to be written with the policy's line ends."""
        self.stored.line_end = "\n" if policy is None else policy.linesep
        return self.stored


class _Stored(ParsedMessage):
    """A parsed message that is written as the very bytes it was read from."""

    raw = b""
    line_end = "\n"

    def as_bytes(self, unixfrom: object = None, policy: Any = None, linesep: str | None = None) -> bytes:
        line_end = linesep or (self.line_end if policy is None else policy.linesep)
        return re.sub(rb"\r\n|\r|\n", line_end.encode(), self.raw)

    def as_string(self, *_args: Any, policy: Any = None, **_kwargs: Any) -> str:
        return self.as_bytes(policy=policy).decode("utf-8", "surrogateescape")


def stored_message(payload: Mapping[str, Any]) -> StoredMessage:
    """Return the message that a payload holds."""
    raw = base64.b64decode(payload["message"])
    parsed = cast("_Stored", message_from_bytes(raw, _class=_Stored, policy=email.policy.default))
    parsed.raw = raw
    return StoredMessage(parsed, sender=payload["from"], recipients=payload["recipients"])


def _text(part: Any) -> str:
    return str(part.get_content()) if part is not None else ""


def _addresses(parsed: _Stored, header: str) -> list[str]:
    found = parsed.get(header)
    return [str(address) for address in getattr(found, "addresses", ())]


def _bare(address: str) -> str:
    return address.rpartition("<")[2].rstrip(">").strip().lower()
