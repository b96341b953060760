"""``EMAIL_BACKEND = "jobqueue.mail.JobQueueEmailBackend"``: every mail of the project becomes a job."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.mail.backends.base import BaseEmailBackend
from django.db import DatabaseError, transaction

from jobqueue.exceptions import JobQueueError
from jobqueue.models import Job
from jobqueue.outbox.mails import enqueue_mails, mail_specs

if TYPE_CHECKING:
    from django.core.mail import EmailMessage

    from jobqueue.managers.arriving import JobSpec

logger = logging.getLogger("jobqueue.mail")


class JobQueueEmailBackend(BaseEmailBackend):
    """Enqueue instead of sending: in the caller's transaction, each message one job, all of a call or none.

    With `fail_silently` what cannot be enqueued is logged and left out, message by message, and the caller's
    transaction stays usable. JOBQUEUE["MAIL_BACKEND"] sends what was enqueued.
    """

    def __init__(self, fail_silently: bool = False, **kwargs: Any) -> None:
        # Host, password and the like, which are for the backend that sends, are not used here.
        super().__init__(**({"alias": kwargs["alias"]} if "alias" in kwargs else {}))
        self.fail_silently = fail_silently

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Return how many messages were enqueued. Raises PayloadError for one that is too large."""
        specs = mail_specs(email_messages)
        if self.fail_silently:
            return sum(self._enqueue_if_possible(spec) for spec in specs)
        enqueue_mails(specs)
        return len(specs)

    def _enqueue_if_possible(self, spec: JobSpec) -> int:
        try:
            with transaction.atomic(using=Job.objects.write_db):
                enqueue_mails([spec])
        except (JobQueueError, DatabaseError) as error:
            recipients = len((spec.payload or {}).get("recipients", ()))
            # The text of a database's error may hold the row, and so the mail.
            told = error if isinstance(error, JobQueueError) else type(error).__name__
            logger.warning("mail not enqueued recipients=%s error=%s", recipients, told)
            return 0
        return 1
