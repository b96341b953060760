"""What people ask of a worker from the console: it reads its orders with its heartbeat, obeys and answers."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class Order(models.Model):
    """One thing asked of one worker, once; answered when it has obeyed, or with the reason why it did not."""

    class Kind(models.TextChoices):
        """What can be asked."""

        STACK = "stack", _("show where a job's handler is")
        KILL = "kill", _("kill the child that runs a job")
        DRAIN = "drain", _("finish what runs, claim nothing more, and end")
        STOP = "stop", _("release what runs, and end at once")

    class Refusal(models.TextChoices):
        """Why a worker did not do it, as the answer holds it."""

        ENDED = "ended", _("The attempt was over when the worker looked.")
        NOT_BEGUN = "not-begun", _("Its handler has not begun: the job waits inside its worker.")
        SILENT = "silent", _("The process that runs it did not answer: it stands still.")
        UNKNOWN = "unknown", _("The worker does not know such an order: its code is older.")

    id = models.BigAutoField(primary_key=True)
    worker_id = models.TextField(_("worker"))
    kind = models.TextField(_("order"), choices=Kind.choices)
    job_id = models.BigIntegerField(_("job"), null=True)
    lease_epoch = models.BigIntegerField(_("lease epoch"), null=True)
    asked_by = models.TextField(_("asked by"))
    asked_at = models.DateTimeField(_("asked"), db_default=StatementTimestamp())
    answered_at = models.DateTimeField(_("answered"), null=True)
    obeyed = models.BooleanField(_("obeyed"), null=True)
    # Of a stack the stack itself; of what was not done a Refusal.
    answer = models.TextField(_("answer"), null=True)

    class Meta:
        verbose_name = _("order to a worker")
        verbose_name_plural = _("orders to workers")
        default_permissions = ()
        indexes = [
            models.Index(fields=["worker_id", "id"], condition=models.Q(answered_at=None), name="jobqueue_order_open"),
            models.Index(fields=["job_id", "id"], name="jobqueue_order_job"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.worker_id}"

    @property
    def refusal(self) -> str:
        """Why it was not done, in words; "" where it was, or where nobody has answered yet."""
        if self.obeyed is not False:
            return ""
        answer = self.answer or ""
        return str(self.Refusal(answer).label) if answer in self.Refusal.values else answer
