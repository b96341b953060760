"""Tasks as people see them: by their path, and repaired, cloned and explained like any other job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobqueue import operations
from jobqueue.backends.compat import TaskResultStatus, task_backends
from jobqueue.backends.naming import type_of
from jobqueue.models import Job
from jobqueue.ops import statistics
from jobqueue.ops.dead_groups import dead_groups
from jobqueue.ops.reasons import why
from jobqueue.registry import registry
from jobqueue.states import Status
from jobqueue.testing import drain
from tests.backends import tasks
from tests.factories import WorkerFactory

pytestmark = pytest.mark.django_db
PATH = "tests.backends.tasks.fails"


def forget(path: str) -> None:
    """Have this process not know a task, as a web server's that never imported its module."""
    registry._tasks.pop(type_of(path), None)


def test_groups_and_statistics_are_by_the_path() -> None:
    for _ in range(2):
        tasks.fails.enqueue()
    drain()

    assert [(group.job_type, group.jobs) for group in dead_groups(Job.objects.dead()).groups] == [(PATH, 2)]
    assert statistics.figures(timedelta(hours=1), by=("job_type",))[(PATH,)].dead == 2


def test_a_task_that_this_process_never_imported_is_explained_as_known() -> None:
    WorkerFactory.create(busy=0)
    job = Job.objects.get(pk=int(tasks.adds.enqueue(1).id))
    forget("tests.backends.tasks.adds")

    assert [reason.code for reason in why(job)] == ["next"]


def test_a_failed_task_is_edited_and_run_again() -> None:
    result = tasks.fails.enqueue("first")
    drain()
    job = Job.objects.get(pk=int(result.id))
    forget(PATH)

    seen = operations.Seen(job.updated_at, job.lease_epoch)
    operations.edit_and_retry(job.pk, job.payload | {"args": ["second"]}, seen=seen, actor="command")
    drain()
    result.refresh()

    assert [error.traceback.splitlines()[-1] for error in result.errors] == ["ValueError: first", "ValueError: second"]


def test_a_clone_is_a_task_of_the_same_alias() -> None:
    result = tasks.adds.using(backend="other", priority=9).enqueue(1, 2)
    clone = operations.clone(int(result.id), actor="command")
    drain()

    told = task_backends["other"].get_result(str(clone.pk))
    assert (told.status, told.return_value, told.task.priority) == (TaskResultStatus.SUCCESSFUL, 3, 9)
    assert Job.objects.get(pk=clone.pk).status == Status.DONE
