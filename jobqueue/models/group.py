"""What people noted of a group of dead letters: whose it is, what is known of it, whether it is muted."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class GroupNote(models.Model):
    """The note on one group: one fingerprint of one job type. A group that nobody touched has no row."""

    fingerprint = models.TextField(_("fingerprint"), help_text=_("Empty: of jobs that died without an error."))
    job_type = models.TextField(_("type"))
    note = models.TextField(_("note"), blank=True, db_default="")
    assignee = models.TextField(_("in the hands of"), blank=True, db_default="", help_text=_("A user's name."))
    muted_until = models.DateTimeField(_("muted until"), null=True, blank=True)
    muted_rate = models.IntegerField(
        _("dead letters a day when it was muted"),
        null=True,
        blank=True,
        help_text=_("Twice as many end the mute. Empty: only the time does."),
    )
    updated_by = models.TextField(_("changed by"), db_default="")
    updated_at = models.DateTimeField(_("changed"), db_default=StatementTimestamp())

    class Meta:
        verbose_name = _("note on a group of dead letters")
        verbose_name_plural = _("notes on groups of dead letters")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["fingerprint", "job_type"], name="jobqueue_groupnote_group")]

    def __str__(self) -> str:
        return f"{self.fingerprint} {self.job_type}"
