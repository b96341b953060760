"""The workers: who is alive, what each serves, and who sleeps and wants to be woken."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class Worker(models.Model):
    """One boot of one ``runworker``; a restart under the same name is another row, since the id has a random part."""

    worker_id = models.TextField(_("worker"), primary_key=True)
    name = models.TextField(_("name"))
    hostname = models.TextField(_("host"))
    pid = models.IntegerField(_("process"))
    version = models.TextField(_("version"), db_default="", help_text=_("Of jobqueue."))
    release = models.TextField(_("release"), db_default="", help_text=_("Of the project."))
    queues = ArrayField(models.TextField(), verbose_name=_("queues"), help_text=_("* stands for every queue."))
    job_types = ArrayField(models.TextField(), verbose_name=_("types"), help_text=_("Empty: every type."))
    slots = models.IntegerField(_("slots"))
    busy = models.IntegerField(_("jobs held"), db_default=0)
    started_at = models.DateTimeField(_("started"), db_default=StatementTimestamp())
    heartbeat_at = models.DateTimeField(_("heartbeat"), db_default=StatementTimestamp())
    claimed_at = models.DateTimeField(_("last good claim"), null=True)
    jobs_ended = models.BigIntegerField(_("attempts ended"), db_default=0)
    jobs_per_second = models.FloatField(_("attempts ended a second"), null=True, help_text=_("Over the last minute."))
    memory_bytes = models.BigIntegerField(_("memory"), null=True, help_text=_("Of its processes together."))
    clock_skew_seconds = models.FloatField(_("clock ahead by"), null=True)
    listening = models.BooleanField(_("hears notifications"), null=True)
    gauges = models.JSONField(_("gauges"), db_default=[])
    counts_batch = models.BigIntegerField(_("batches of counts written"), db_default=0)
    stopping = models.BooleanField(_("stopping"), db_default=False)
    idle_since = models.DateTimeField(
        _("idle since"), null=True, help_text=_("Set while it sleeps and wants to be woken.")
    )

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)
        permissions = [("manage_worker", _("Can drain and stop workers"))]

    def __str__(self) -> str:
        return self.worker_id
