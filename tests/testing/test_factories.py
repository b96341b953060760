"""jobqueue.testing.factories: jobs in every state, as the verbs would have left them."""

import subprocess
import sys

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import ACTIVE, FINISHED, Status
from jobqueue.testing import drain, factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", Status)
def test_a_job_in_each_state_is_stored_as_the_table_asks(status: Status) -> None:
    job = factories.JobFactory.create(status=status, dedupe_key="key", payload={"path": "ä"})

    row = Job.objects.get()
    assert (row.pk, row.status, row.payload_bytes) == (job.pk, status, len('{"path": "ä"}'.encode()))
    assert (row.finished_at is not None) == (status in FINISHED)
    assert (row.lease_until is not None) == (status == Status.RUNNING)
    assert (row.run_after > row.created_at) == (status == Status.SCHEDULED)
    assert (Job.objects.enqueue("probe.ok", dedupe_key="key") is None) == (status in ACTIVE)


def test_a_job_of_a_handlers_type_runs() -> None:
    job = factories.JobFactory.create(job_type="probe.echo", payload={"value": 7})

    assert drain() == [(job.pk, Status.DONE)]
    assert Job.objects.get().result == 7


def test_a_dead_letter_can_be_put_back() -> None:
    job = factories.JobFactory.create(status=Status.DEAD, job_type="probe.ok")

    Job.objects.redrive(job.pk)

    assert drain() == [(job.pk, Status.DONE)]


def test_a_history_is_an_attempt_for_each_that_was_charged() -> None:
    dead = factories.JobFactory.create(status=Status.DEAD, history=True)
    factories.JobFactory.create(status=Status.DEAD)

    assert list(Attempt.objects.values_list("job", "number", "outcome").order_by("number")) == [
        (dead.pk, number, Outcome.FAILED) for number in (1, 2, 3)
    ]
    assert [attempt["number"] for attempt in dead.attempt_history()] == [1, 2, 3]


def test_an_expired_job_is_one_that_is_reaped() -> None:
    lost, held = factories.JobFactory.create(expired=True), factories.JobFactory.create(status=Status.RUNNING)

    Job.objects.reap()

    assert dict(Job.objects.values_list("pk", "status")) == {lost.pk: Status.PENDING, held.pk: Status.RUNNING}


def test_workers_and_attempts_are_made() -> None:
    assert factories.WorkerFactory.create(idle=True).idle_since is not None
    assert factories.AttemptFactory.create().job.status == Status.DEAD


def test_without_factory_boy_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['factory'] = None\n"
        "import django; django.setup()\n"
        "import jobqueue.testing\n"
        "import jobqueue.testing.factories"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.stderr.splitlines()[-1] == (
        "ImportError: jobqueue.testing.factories needs factory-boy: pip install 'jobqueue[test]'"
    )
