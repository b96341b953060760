"""Statistics, costs and counters: what outlives the jobs. Maintenance folds them into longer spans."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobqueue.outcomes import Outcome

from .expressions import StatementTimestamp


class Stat(models.Model):
    """How many attempts of one type ended one way, and their seconds: of one batch (span 0) or of one span of time."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("from"), db_default=StatementTimestamp())
    span_seconds = models.SmallIntegerField(_("span"), db_default=0)
    queue = models.TextField(_("queue"))
    job_type = models.TextField(_("type"))
    outcome = models.SmallIntegerField(_("outcome"), choices=Outcome.choices)
    jobs = models.BigIntegerField(_("attempts"))
    dead = models.BigIntegerField(_("became dead letters"), db_default=0)
    wait_seconds = models.FloatField(_("seconds waited"))
    run_seconds = models.FloatField(_("seconds run"))
    cpu_seconds = models.FloatField(_("CPU seconds"))
    peak_memory_bytes = models.BigIntegerField(_("peak memory"), null=True)
    # Times by bucket (jobqueue/histograms.py): of a settle one bucket number a job, of a folded row a count a bucket.
    wait_buckets = ArrayField(models.SmallIntegerField(), verbose_name=_("buckets of waits"), null=True)
    run_buckets = ArrayField(models.SmallIntegerField(), verbose_name=_("buckets of runs"), null=True)
    wait_counts = ArrayField(models.BigIntegerField(), verbose_name=_("waits by bucket"), null=True)
    run_counts = ArrayField(models.BigIntegerField(), verbose_name=_("runs by bucket"), null=True)

    class Meta:
        verbose_name = _("statistics row")
        verbose_name_plural = _("statistics rows")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["at", "span_seconds", "queue", "job_type", "outcome"],
                condition=models.Q(span_seconds__gt=0),
                name="jobqueue_stat_bucket",
            )
        ]
        indexes = [
            models.Index(
                fields=["span_seconds", "at", "id"], condition=models.Q(span_seconds__lt=900), name="jobqueue_stat_fold"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_type} {self.get_outcome_display()} {self.at:%Y-%m-%d %H:%M}"


class Cost(models.Model):
    """What attempts of one type cost: of one settle (span 0) or of one span of time. Never a float."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("from"), db_default=StatementTimestamp())
    span_seconds = models.SmallIntegerField(_("span"), db_default=0)
    queue = models.TextField(_("queue"))
    job_type = models.TextField(_("type"))
    owner = models.TextField(_("owner"), db_default="")
    component = models.TextField(_("component"), db_default="")
    unit = models.TextField(_("unit"))
    # Wider than an attempt's cost: a sum of amounts that each fit must not stop the folding.
    amount = models.DecimalField(_("amount"), max_digits=30, decimal_places=8)

    class Meta:
        verbose_name = _("cost")
        verbose_name_plural = _("costs")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["at", "span_seconds", "queue", "job_type", "owner", "component", "unit"],
                condition=models.Q(span_seconds__gt=0),
                name="jobqueue_cost_bucket",
            )
        ]
        indexes = [
            models.Index(
                fields=["span_seconds", "at", "id"], condition=models.Q(span_seconds__lt=900), name="jobqueue_cost_fold"
            ),
            models.Index(fields=["at"], name="jobqueue_cost_at"),
        ]

    def __str__(self) -> str:
        return f"{self.job_type} {self.amount} {self.unit} {self.at:%Y-%m-%d %H:%M}"


class Counter(models.Model):
    """How much was counted under one name and set of labels: between two heartbeats (span 0) or in one span of time."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("from"), db_default=StatementTimestamp())
    span_seconds = models.SmallIntegerField(_("span"), db_default=0)
    name = models.TextField(_("name"))
    labels = models.JSONField(_("labels"), db_default={})
    amount = models.FloatField(_("amount"))

    class Meta:
        verbose_name = _("counter row")
        verbose_name_plural = _("counter rows")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["at", "span_seconds", "name", "labels"],
                condition=models.Q(span_seconds__gt=0),
                name="jobqueue_counter_bucket",
            )
        ]
        indexes = [
            models.Index(
                fields=["span_seconds", "at", "id"],
                condition=models.Q(span_seconds__lt=900),
                name="jobqueue_counter_fold",
            ),
            models.Index(fields=["name", "at"], name="jobqueue_counter_name"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.amount:g} {self.at:%Y-%m-%d %H:%M}"
