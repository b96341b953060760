"""factory-boy factories of jobs in every state, their attempts and workers: rows, without going through enqueue().

    JobFactory(job_type="shop.invoice", status=Status.DEAD, history=True)
    JobFactory.create_batch(3, status=Status.RUNNING, lease_until=ago(1))

A job's other columns follow from its status as the verbs would have left them; times are the database's. They need
factory-boy, of the extra [test].
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from django.db.models import Expression, Model, QuerySet

from jobqueue.models import Attempt, Job, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.outcomes import Outcome
from jobqueue.payloads import encode_payload
from jobqueue.states import FINISHED, Status

try:
    from factory.declarations import LazyAttribute, LazyFunction, SelfAttribute, Sequence, SubFactory, Trait
    from factory.django import DjangoModelFactory
    from factory.helpers import post_generation
except ImportError as error:
    raise ImportError("jobqueue.testing.factories needs factory-boy: pip install 'jobqueue[test]'") from error

STARTED = (Status.RUNNING, Status.DONE, Status.DEAD)
LEASE_SECONDS = 120
WORKER = "worker-1"


def ago(seconds: float) -> Expression:
    """Return the database's time that many seconds ago, for a column of a new row."""
    return StatementTimestamp() - timedelta(seconds=seconds)


def ahead(seconds: float) -> Expression:
    """Return the database's time in that many seconds, for a column of a new row."""
    return StatementTimestamp() + timedelta(seconds=seconds)


def _outcome(job: Any) -> Outcome | None:
    return {Status.DONE: Outcome.DONE, Status.DEAD: Outcome.FAILED, Status.CANCELLED: Outcome.CANCELLED}.get(job.status)


Row = TypeVar("Row", bound=Model)


class RowFactory(DjangoModelFactory[Row]):
    """Insert the row as it is, then read it back: expressions become values."""

    class Meta:
        abstract = True

    @classmethod
    def _create(cls, model_class: Any, *args: Any, **kwargs: Any) -> Any:
        # A plain QuerySet: Job.save() and Job.objects.bulk_create() refuse, since they skip the checks.
        row = model_class(*args, **kwargs)
        rows: QuerySet[Any] = QuerySet(model_class)
        rows.bulk_create([row])
        return rows.get(pk=row.pk)


class JobFactory(RowFactory[Job]):
    """A job in the given status, PENDING unless told otherwise; name the type of a handler of yours to have it run."""

    class Meta:
        model = Job
        skip_postgeneration_save = True  # Job.save() refuses

    job_type = "test.job"
    queue = "default"
    priority = 100
    status = Status.PENDING
    payload = LazyFunction(dict)
    payload_bytes = LazyAttribute(lambda job: encode_payload(job.payload, max_bytes=2**30).size)
    max_attempts = 3
    attempts = LazyAttribute(lambda job: job.max_attempts if job.status == Status.DEAD else int(job.status in STARTED))
    lease_epoch = LazyAttribute(lambda job: job.attempts)
    run_after = LazyAttribute(lambda job: ahead(3600) if job.status == Status.SCHEDULED else StatementTimestamp())
    worker_id = LazyAttribute(lambda job: WORKER if job.status in STARTED else None)
    lease_until = LazyAttribute(lambda job: ahead(LEASE_SECONDS) if job.status == Status.RUNNING else None)
    claimed_at = LazyAttribute(lambda job: StatementTimestamp() if job.status in STARTED else None)
    run_started_at = LazyAttribute(
        lambda job: StatementTimestamp() if job.status in (Status.DONE, Status.DEAD) else None
    )
    first_started_at = SelfAttribute("run_started_at")
    finished_at = LazyAttribute(lambda job: StatementTimestamp() if job.status in FINISHED else None)
    outcome = LazyAttribute(_outcome)
    result = LazyAttribute(lambda job: {"ok": True} if job.status == Status.DONE else None)
    last_error = LazyAttribute(lambda job: "boom" if job.status == Status.DEAD else None)
    error_class = LazyAttribute(lambda job: "RuntimeError" if job.status == Status.DEAD else None)
    fingerprint = LazyAttribute(lambda job: "f" * 16 if job.status == Status.DEAD else None)

    class Params:
        """expired=True: a running job whose worker is lost."""

        expired = Trait(status=Status.RUNNING, lease_until=LazyFunction(lambda: ago(1)))

    @post_generation
    def history(self: Any, create: bool, wanted: bool | None, **_: Any) -> None:
        """Log a failed attempt for each that a dead or retried job has had: history=True."""
        if create and wanted:
            for number in range(1, self.attempts + 1):
                AttemptFactory(job=self, number=number)


class AttemptFactory(RowFactory[Attempt]):
    """An attempt that failed; of a dead job unless told otherwise."""

    class Meta:
        model = Attempt

    job = SubFactory(JobFactory, status=Status.DEAD)
    number = 1
    lease_epoch = SelfAttribute("number")
    worker_id = WORKER
    claimed_at = LazyFunction(lambda: ago(2))
    started_at = LazyFunction(lambda: ago(1))
    outcome = Outcome.FAILED
    error_class = "RuntimeError"
    error_text = "boom"
    traceback = "Traceback (most recent call last):\nRuntimeError: boom"
    fingerprint = "f" * 16


class WorkerFactory(RowFactory[Worker]):
    """A worker that is alive and busy; idle=True makes one that sleeps and wants to be woken."""

    class Meta:
        model = Worker

    worker_id = Sequence(lambda number: f"worker-{number}:test")
    name = "worker"
    hostname = "test"
    pid = 1
    queues = LazyFunction(lambda: ["default"])
    job_types = LazyFunction(list)
    slots = 2

    class Params:
        """idle=True: it sleeps, and wants to be woken."""

        idle = Trait(idle_since=StatementTimestamp())
