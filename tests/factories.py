"""Rows of every table in every state, without going through the verbs that the tests are about.

    JobFactory(status=Status.RUNNING, lease_until=ago(1))
    JobFactory.create_batch(3, status=Status.DEAD, dedupe_key=None)

Jobs, attempts and workers are those of jobqueue.testing.factories, of a type that these tests have a handler for.
"""

from decimal import Decimal

from factory.declarations import LazyFunction, SubFactory

from jobqueue.models import Action, Cost, Counter, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.testing import factories
from jobqueue.testing.factories import LEASE_SECONDS, WORKER, RowFactory, WorkerFactory, ago, ahead

__all__ = ["LEASE_SECONDS", "WORKER", "WorkerFactory", "ago", "ahead"]


class JobFactory(factories.JobFactory):
    """A job in the given status, PENDING unless told otherwise."""

    job_type = "probe.ok"


class AttemptFactory(factories.AttemptFactory):
    """An attempt that failed; of a dead job unless told otherwise."""

    job = SubFactory(JobFactory, status=Status.DEAD)


class StatFactory(RowFactory[Stat]):
    """One batch's statistics row."""

    class Meta:
        model = Stat

    queue = "default"
    job_type = "probe.ok"
    outcome = Outcome.DONE
    jobs = 1
    wait_seconds = 0.5
    run_seconds = 0.25
    cpu_seconds = 0.125


class CostFactory(RowFactory[Cost]):
    """One settle's cost row."""

    class Meta:
        model = Cost

    queue = "default"
    job_type = "probe.ok"
    unit = "USD"
    amount = Decimal("0.10")


class CounterFactory(RowFactory[Counter]):
    """What was counted between two heartbeats."""

    class Meta:
        model = Counter

    name = "sessions"
    labels = LazyFunction(dict)
    amount = 1.0


class ActionFactory(RowFactory[Action]):
    """One batch of one person's action."""

    class Meta:
        model = Action

    actor = "admin"
    action = "retry"
    job_ids = LazyFunction(list)
