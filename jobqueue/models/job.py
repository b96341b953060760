"""The job: one row from enqueue to prune."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.db import models
from django.db.models.functions import Left
from django.db.models.lookups import Exact
from django.utils.translation import gettext_lazy as _

from jobqueue.managers import Fence, JobManager
from jobqueue.outcomes import Outcome
from jobqueue.states import ACTIVE, Status

from .expressions import StatementTimestamp
from .readable import InstantField, ReadableJSONField

if TYPE_CHECKING:
    pass

TYPE_CHARACTERS: Final = 63


def of_type(job_type: str) -> models.Q:
    """Return the condition that finds the jobs of a type, with what the index of the dead letters of a type asks."""
    cut = models.Value(job_type[:TYPE_CHARACTERS])
    return models.Q(Exact(Left("job_type", TYPE_CHARACTERS), cut)) & models.Q(job_type=job_type)


class Job(models.Model):
    """One unit of work: what to run, how it stands and how it ended (docs/states.md).

    Rows change through ``Job.objects`` and jobqueue.operations only. Saving an instance is refused:
    it would write a stale copy over what a worker did meanwhile.
    """

    id = models.BigAutoField(primary_key=True)
    job_type = models.TextField(_("type"))
    queue = models.TextField(_("queue"), db_default="default")
    priority = models.SmallIntegerField(_("priority"), db_default=100, help_text=_("Lower runs first."))
    status = models.SmallIntegerField(_("status"), choices=Status.choices, db_default=Status.PENDING)
    payload = ReadableJSONField(_("payload"), db_default={})
    payload_bytes = models.IntegerField(_("payload bytes"), db_default=2)
    run_after = InstantField(_("run after"), db_default=StatementTimestamp())
    dedupe_key = models.TextField(_("dedupe key"), null=True, blank=True)
    owner = models.TextField(_("owner"), blank=True, db_default="")
    attempts = models.SmallIntegerField(_("attempts"), db_default=0)
    max_attempts = models.SmallIntegerField(_("attempts allowed"), db_default=3)
    interruptions = models.SmallIntegerField(_("interruptions"), db_default=0)

    worker_id = models.TextField(_("worker"), null=True, blank=True)
    lease_epoch = models.BigIntegerField(_("lease epoch"), db_default=0)
    lease_until = InstantField(_("lease until"), null=True, blank=True)
    claimed_at = InstantField(_("claimed"), null=True, blank=True)
    run_started_at = InstantField(_("run started"), null=True, blank=True)
    first_started_at = InstantField(_("first started"), null=True, blank=True)
    finished_at = InstantField(_("finished"), null=True, blank=True)
    cancel_requested_at = InstantField(_("cancel requested"), null=True, blank=True)
    unknown_since = InstantField(_("type unknown since"), null=True, blank=True)

    progress = ReadableJSONField(_("progress"), null=True, blank=True)
    result = ReadableJSONField(_("result"), null=True, blank=True)
    outcome = models.SmallIntegerField(_("last outcome"), choices=Outcome.choices, null=True, blank=True)
    last_error = models.TextField(_("last error"), null=True, blank=True)
    error_class = models.TextField(_("error class"), null=True, blank=True)
    fingerprint = models.TextField(_("fingerprint"), null=True, blank=True)
    cost_total = models.DecimalField(_("cost"), max_digits=20, decimal_places=8, db_default=0)
    cost_last = models.DecimalField(_("cost of the last attempt"), max_digits=20, decimal_places=8, db_default=0)
    cpu_seconds = models.FloatField(_("CPU seconds"), null=True, blank=True)
    peak_memory_bytes = models.BigIntegerField(_("peak memory"), null=True, blank=True)
    # What the attempt under way has cost so far: charged by the reaper where its worker dies before it settles.
    open_costs = ReadableJSONField(_("costs of the attempt under way"), null=True, blank=True)
    trace_context = models.TextField(_("trace context"), null=True, blank=True)
    # Of a django.tasks task: the alias in TASKS that it was enqueued by, and that its result is read by.
    task_backend = models.TextField(_("tasks backend"), null=True, blank=True)
    created_at = InstantField(_("created"), db_default=StatementTimestamp())
    updated_at = InstantField(_("updated"), db_default=StatementTimestamp())

    objects: ClassVar[JobManager] = JobManager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        default_permissions = ("view",)
        permissions = [
            ("retry_job", _("Can retry jobs")),
            ("discard_job", _("Can discard dead letters")),
            ("cancel_job", _("Can cancel jobs")),
            ("release_job", _("Can release stuck jobs")),
            ("view_cost", _("Can view costs")),
            ("view_payload", _("Can see hidden values of payloads")),
            ("edit_payload", _("Can edit payloads")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["dedupe_key"],
                condition=models.Q(dedupe_key__isnull=False, status__in=ACTIVE),
                name="jobqueue_job_dedupe",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "priority", "run_after", "id"],
                condition=models.Q(status=Status.PENDING),
                name="jobqueue_job_claim",
            ),
            models.Index(
                fields=["run_after", "id"], condition=models.Q(status=Status.SCHEDULED), name="jobqueue_job_scheduled"
            ),
            # By id, not by worker: the planner settled whole batches through an index of workers, six times slower.
            models.Index(fields=["id"], condition=models.Q(status=Status.RUNNING), name="jobqueue_job_running"),
            models.Index(
                fields=["status", "finished_at", "id"],
                condition=models.Q(status__in=[Status.DONE, Status.DEAD, Status.CANCELLED]),
                name="jobqueue_job_finished",
            ),
            models.Index(
                fields=["fingerprint", "id"], condition=models.Q(status=Status.DEAD), name="jobqueue_job_dead"
            ),
            models.Index(
                fields=["dedupe_key", "id"],
                condition=models.Q(status=Status.DEAD, dedupe_key__isnull=False),
                name="jobqueue_job_dead_key",
            ),
            # What people narrow dead letters by: of one that is rare all others would be walked past.
            models.Index(
                fields=["queue", "finished_at", "id"],
                condition=models.Q(status=Status.DEAD),
                name="jobqueue_job_dead_queue",
            ),
            # Read by of_type(). Cut: a row written by hand may have a type of any length, an entry of an index may not.
            models.Index(
                Left("job_type", TYPE_CHARACTERS),
                models.F("finished_at"),
                models.F("id"),
                condition=models.Q(status=Status.DEAD),
                name="jobqueue_job_dead_type",
            ),
            models.Index(fields=["cost_total", "id"], condition=models.Q(cost_total__gt=0), name="jobqueue_job_cost"),
        ]

    def __str__(self) -> str:
        return f"{self.job_type} #{self.pk}"

    def refresh_from_db(
        self, using: str | None = None, fields: Iterable[str] | None = None, from_queryset: Any = None
    ) -> None:
        """Read the row again, from the primary: a replica may not have its change yet."""
        super().refresh_from_db(using or Job.objects.write_db, fields, from_queryset)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: a whole-row write would overwrite what a worker did since the row was read.

        Raises TypeError. Enqueue with Job.objects.enqueue(); change with Job.objects or jobqueue.operations.
        """
        raise TypeError(
            "a Job is not saved: use Job.objects.enqueue() to make one, "
            "and Job.objects or jobqueue.operations to change it"
        )

    @property
    def fence(self) -> Fence:
        """What identifies this attempt: (id, worker_id, lease_epoch) as the row was read."""
        return Fence(self.pk, self.worker_id or "", self.lease_epoch)

    def attempt_history(self) -> list[dict[str, Any]]:
        """Return every attempt, oldest first: the logged ones, and the last one when it went well or is still running.

        Keys: lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome, error_class, error_text,
        traceback, exit_code, cost, cpu_seconds, peak_memory_bytes.
        """
        fields = (
            "lease_epoch number worker_id claimed_at started_at finished_at outcome error_class error_text traceback "
            "exit_code cost cpu_seconds peak_memory_bytes"
        ).split()
        history: list[dict[str, Any]] = list(self.attempt_rows.order_by("lease_epoch").values(*fields))
        if self.status in (Status.RUNNING, Status.DONE):
            done = self.status == Status.DONE
            history.append(
                dict.fromkeys(fields)
                | {
                    "lease_epoch": self.lease_epoch,
                    "number": self.attempts,
                    "worker_id": self.worker_id,
                    "claimed_at": self.claimed_at,
                    "started_at": self.run_started_at,
                    "finished_at": self.finished_at if done else None,
                    "outcome": Outcome.DONE if done else None,
                    "cost": self.cost_last if done else None,
                    "cpu_seconds": self.cpu_seconds if done else None,
                    "peak_memory_bytes": self.peak_memory_bytes if done else None,
                }
            )
        return history
