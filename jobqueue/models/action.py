"""What people did to jobs and queues: who, what, why, to which; and what they were refused."""

from contextvars import ContextVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from .expressions import StatementTimestamp
from .readable import ReadableJSONField

#: Where the request that is being answered came from, "" outside of one. Of the row, so that no writer can forget it.
request_address: ContextVar[str] = ContextVar("request_address", default="")


def current_address() -> str:
    """Return the address of who asks, "" where nobody does over the network."""
    return request_address.get()


class Action(models.Model):
    """One batch of one action by one person or command; kept when the jobs are pruned."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("time"), db_default=StatementTimestamp())
    actor = models.TextField(_("who"), help_text=_("A user's name, or the command."))
    action = models.TextField(_("action"))
    reason = models.TextField(_("reason"), blank=True, db_default="")
    job_ids = ArrayField(models.BigIntegerField(), verbose_name=_("jobs"))
    subject = models.TextField(_("of what"), blank=True, db_default="", help_text=_("queue:NAME where it was no job."))

    # Of an edit {"payload": {"from": …, "to": …}}, of a clone {"of": id, "clone": id}; as secret as the payloads are.
    # Of an edit of one field {"edit": "set", "field": "$.a", "put_back": true,
    # "jobs": {"ID": {"from": {"a": …}, "to": {"a": …}}}}.
    detail = ReadableJSONField(_("detail"), null=True, blank=True)

    refused = models.BooleanField(_("refused"), db_default=False, help_text=_("Asked for without the permission."))
    address = models.TextField(
        _("address"), blank=True, default=current_address, db_default="", help_text=_("Where a request came from.")
    )

    class Meta:
        verbose_name = _("action")
        verbose_name_plural = _("audit")
        default_permissions = ()
        permissions = [("view_audit", _("Can view the audit"))]
        indexes = [
            GinIndex(fields=["job_ids"], name="jobqueue_action_jobs"),
            # The filters of the page, each in its order, and in its period.
            models.Index(fields=["at", "id"], name="jobqueue_action_time"),
            models.Index(fields=["actor", "at", "id"], name="jobqueue_action_actor"),
            models.Index(fields=["action", "at", "id"], name="jobqueue_action_action"),
            models.Index(fields=["subject", "id"], condition=~models.Q(subject=""), name="jobqueue_action_subject"),
            models.Index(fields=["at", "id"], condition=models.Q(refused=True), name="jobqueue_action_refused"),
        ]

    def __str__(self) -> str:
        jobs = len(self.job_ids)
        return f"{self.actor}: {self.action} {self.subject or ngettext('%d job', '%d jobs', jobs) % jobs}"
