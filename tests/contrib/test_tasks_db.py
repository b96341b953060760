"""The move from the real django-tasks-db: its rows become jobs, and its ids still lead to results."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib.admin import site
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from jobqueue.backends.compat import TaskResultDoesNotExist, TaskResultStatus, task_backends, task_enqueued
from jobqueue.contrib.tasks_db.tables import adopted, foreign
from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import drain
from tests.backends import tasks
from tests.connections import database_conninfo

pytest.importorskip("django_tasks_db")

THEIRS = {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": [], "OPTIONS": {"id_function": "uuid.uuid4"}}
OURS = {**THEIRS, "BACKEND": "jobqueue.contrib.tasks_db.backend.TasksDbBackend"}
APPS = ["django_tasks_db", "jobqueue.contrib.tasks_db"]
LABELS = ("django_tasks_database", "jobqueue_tasks_db")


@pytest.fixture
def before(db: None, settings: Any) -> Iterator[None]:
    """Have the project run on django-tasks-db, with its own tables, and ours beside it."""
    registered = dict(site._registry)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, *APPS]
    settings.TASKS = {"default": THEIRS, "reports": THEIRS}
    for label in LABELS:
        call_command("migrate", label, verbosity=0)
    yield
    # Their page came with the app, and would outlive it: no page of the admin could be opened any more.
    site._registry = registered


@pytest.fixture
def committed(transactional_db: None, before: None) -> Iterator[None]:
    """Have it so where other connections can see it; leave no table."""
    yield
    with connection.cursor() as cursor:  # theirs cannot be undone by migrate
        for model in (rows().model, adopted().model):
            cursor.execute(f"DROP TABLE {connection.ops.quote_name(model._meta.db_table)}")
        cursor.execute("DELETE FROM django_migrations WHERE app = ANY(%s)", [list(LABELS)])


def switch(settings: Any) -> None:
    settings.TASKS = {"default": OURS, "reports": OURS}


def adopt(*arguments: str, code: int = 0) -> str:
    out = io.StringIO()
    try:
        call_command("jobqueue_adopt_tasks_db", *arguments, stdout=out)
        ended = 0
    except SystemExit as error:
        ended = int(error.code or 0)
    assert ended == code, out.getvalue()
    return out.getvalue()


def rows() -> Any:
    found = foreign()
    assert found is not None
    return found


@pytest.mark.django_db
def test_waiting_tasks_become_jobs_that_run_and_old_ids_lead_to_their_results(before: None, settings: Any) -> None:
    heard: list[Any] = []
    added = tasks.adds.using(priority=7, queue_name="slow").enqueue(1, 2, start=3)
    later = tasks.adds.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    switch(settings)
    task_enqueued.connect(receiver := lambda **told: heard.append(told))

    assert adopt("--batch", "1", "-v", "2") == "1 so far\n2 so far\n2 moved, 0 left.\n"

    job = Job.objects.get(status=Status.PENDING)
    assert (job.queue, job.priority, job.task_backend) == ("slow", 93, "default")
    assert job.run_after == added.enqueued_at  # it keeps its place, and its wait is told
    assert Job.objects.get(status=Status.SCHEDULED).run_after == later.task.run_after
    drain()
    result = tasks.adds.get_result(added.id)
    assert (result.id, result.status, result.return_value) == (added.id, TaskResultStatus.SUCCESSFUL, 6)
    added.refresh()
    assert added.return_value == 6
    assert tasks.adds.get_result(str(job.pk)).return_value == 6
    assert tasks.adds.get_result(later.id).task.run_after == later.task.run_after
    assert not rows().exists()
    assert heard == []  # the enqueue was told when it was one
    task_enqueued.disconnect(receiver)


@pytest.mark.django_db
def test_a_repeated_move_and_a_dry_one_change_nothing(before: None, settings: Any) -> None:
    tasks.adds.enqueue(1)
    switch(settings)

    assert adopt("--dry-run") == "1 would be moved, 0 left.\n"
    assert (Job.objects.count(), adopted().count(), rows().count()) == (0, 0, 1)
    assert adopt() == "1 moved, 0 left.\n"
    assert adopt() == "0 moved, 0 left.\n"
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_what_cannot_be_a_job_stays_with_the_reason(before: None, settings: Any) -> None:
    gone, elsewhere, running = (tasks.adds.enqueue(number) for number in range(3))
    unstorable, good = tasks.adds.enqueue(4), tasks.adds.enqueue(5)
    rows().filter(pk=gone.id).update(task_path="shop.gone.task")
    rows().filter(pk=elsewhere.id).update(backend_name="unheard_of")
    rows().filter(pk=unstorable.id).update(queue_name="no queue!")
    rows().filter(pk=running.id).update(status="RUNNING")
    switch(settings)

    told = adopt(code=3)

    assert told.startswith("1 moved, 3 left.\n")
    assert f"1 left, as {gone.id}: task shop.gone.task cannot be found" in told
    assert f"1 left, as {elsewhere.id}: TASKS has no 'unheard_of'" in told
    assert f"1 left, as {unstorable.id}: queue" in told
    assert "1 are running: they are left to their db_worker." in told
    assert rows().count() == 4
    assert tasks.adds.get_result(good.id).status == TaskResultStatus.READY


@pytest.mark.django_db
def test_one_backend_may_be_moved_and_to_another_one(before: None, settings: Any) -> None:
    tasks.adds.enqueue(1)
    report = tasks.adds.using(backend="reports").enqueue(2)
    settings.TASKS = {"default": THEIRS, "reports": OURS}

    assert "TASKS['default'] is no JobQueueBackend" in adopt("--backend", "default", code=3)
    assert adopt("--backend", "default", "--to", "reports") == "1 moved, 0 left.\n"
    assert adopt("--backend", "reports") == "1 moved, 0 left.\n"
    assert list(Job.objects.values_list("task_backend", flat=True)) == ["reports", "reports"]
    assert task_backends["reports"].get_result(report.id).args == [2]


@pytest.mark.django_db
def test_a_held_dedupe_key_leaves_the_task_where_it_is(before: None, settings: Any) -> None:
    tasks.adds.enqueue(1)
    tasks.adds.enqueue(1)
    settings.TASKS = {"default": {**OURS, "OPTIONS": {"dedupe": True}}}

    told = adopt(code=3)

    assert "1 moved, 1 left." in told
    assert "an active job holds its dedupe key" in told
    assert (rows().count(), adopted().count()) == (1, 1)


@pytest.mark.django_db
def test_a_batch_that_fails_leaves_rows_and_jobs_as_they_were(before: None, settings: Any) -> None:
    first, second = sorted(tasks.adds.enqueue(number).id for number in range(2))
    switch(settings)
    adopted().create(result_id=second, job_id=1)  # as no move leaves it

    with pytest.raises(CommandError, match="the database refused"):
        adopt("--batch", "1")

    assert [str(row.pk) for row in rows().all()] == [second]
    assert str(adopted().get(job_id=Job.objects.get().pk).pk) == first


@pytest.mark.django_db
def test_results_that_ended_there_are_still_read_and_unknown_ids_do_not_exist(before: None, settings: Any) -> None:
    ended, other = tasks.adds.enqueue(1), tasks.adds.using(backend="reports").enqueue(1)
    rows().get(pk=ended.id).set_successful(41)
    switch(settings)

    assert tasks.adds.get_result(ended.id).return_value == 41
    for missing in (other.id, str(uuid.uuid4()), "no id", "0", str(2**70)):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(missing)
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks_db"]
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(ended.id)
    with pytest.raises(CommandError, match="django_tasks_db is not in INSTALLED_APPS"):
        adopt()


@pytest.mark.django_db
def test_a_row_that_a_db_worker_has_locked_is_left_to_it(committed: None, settings: Any) -> None:
    held, free = tasks.adds.enqueue(1), tasks.adds.enqueue(2)
    switch(settings)
    table = connection.ops.quote_name(rows().model._meta.db_table)

    with psycopg.connect(database_conninfo()) as worker:
        worker.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE", [held.id])
        told = adopt(code=3)
        worker.rollback()

    assert "1 moved, 0 left.\n  1 were locked by a worker, or came meanwhile" in told
    assert list(adopted().values_list("pk", flat=True)) == [uuid.UUID(free.id)]
    assert adopt() == "1 moved, 0 left.\n"


def test_its_settings_are_taken_and_told(settings: Any) -> None:
    settings.TASKS = {"default": OURS}
    found = {message.id: str(message.msg) for message in checks.run_checks() if "TASKS" in str(message.msg)}

    assert "id_function" in found["jobqueue.W015"]
    assert found["jobqueue.E014"] == "TASKS['default'] needs that app"
    assert not apps.is_installed("jobqueue.contrib.tasks_db")


def test_a_batch_has_a_bound(before: None) -> None:
    with pytest.raises(CommandError, match="from 1 to 10000, not 0"):
        adopt("--batch", "0")


@pytest.mark.django_db
def test_the_migration_is_that_of_the_model(before: None) -> None:
    call_command("makemigrations", "jobqueue_tasks_db", check=True, dry_run=True, verbosity=0)
