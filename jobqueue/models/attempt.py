"""Attempts that did not end well. A success is told by the job's own row."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobqueue.outcomes import Outcome

from .expressions import StatementTimestamp
from .job import Job
from .readable import InstantField


class Attempt(models.Model):
    """One run of a job that failed, was stopped, was lost or was interrupted; identified by (job, lease_epoch)."""

    id = models.BigAutoField(primary_key=True)
    # No constraint in the database: prune removes both sides in one statement, and inserts stay cheap.
    job = models.ForeignKey(Job, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="attempt_rows")
    lease_epoch = models.BigIntegerField(_("lease epoch"))
    number = models.SmallIntegerField(_("number"))
    worker_id = models.TextField(_("worker"))
    claimed_at = InstantField(_("claimed"), null=True)
    started_at = InstantField(_("started"), null=True)
    finished_at = InstantField(_("finished"), db_default=StatementTimestamp())
    outcome = models.SmallIntegerField(_("outcome"), choices=Outcome.choices)
    error_class = models.TextField(_("error class"), db_default="")
    error_text = models.TextField(_("error"), db_default="")
    traceback = models.TextField(_("traceback"), db_default="")
    fingerprint = models.TextField(_("fingerprint"), db_default="")
    exit_code = models.IntegerField(_("exit code"), null=True, help_text=_("Of the child process; negative: a signal."))
    cost = models.DecimalField(_("cost"), max_digits=20, decimal_places=8, db_default=0)
    cpu_seconds = models.FloatField(_("CPU seconds"), null=True)
    peak_memory_bytes = models.BigIntegerField(_("peak memory"), null=True)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["job", "lease_epoch"], name="jobqueue_attempt_run")]
        indexes = [
            models.Index(fields=["outcome", "finished_at"], name="jobqueue_attempt_outcome"),
            # What failed attempts cost: most cost nothing.
            models.Index(fields=["finished_at"], condition=~models.Q(cost=0), name="jobqueue_attempt_cost"),
        ]

    def __str__(self) -> str:
        return f"#{self.job_id} attempt {self.number}"
