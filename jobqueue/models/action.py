"""What people did to jobs and queues: who, what, why, to which."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp
from .readable import ReadableJSONField


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
    detail = ReadableJSONField(_("detail"), null=True, blank=True)

    refused = models.BooleanField(_("refused"), db_default=False, help_text=_("Asked for without the permission."))
    address = models.TextField(_("address"), blank=True, db_default="", help_text=_("Where a request came from."))

    class Meta:
        verbose_name = _("action")
        verbose_name_plural = _("actions")
        default_permissions = ()
        permissions = [("view_audit", _("Can view the audit"))]
        indexes = [GinIndex(fields=["job_ids"], name="jobqueue_action_jobs")]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.subject or f'{len(self.job_ids)} jobs'}"
