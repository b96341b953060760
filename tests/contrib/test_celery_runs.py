"""Tasks in Celery's words, run: retries, errors, limits; in the test's process, and by real workers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from jobqueue.contrib.celery.declaring import TaskOptions
from jobqueue.contrib.celery.running import CeleryTask
from jobqueue.exceptions import HandlerImportError
from jobqueue.models import Attempt, Job
from jobqueue.registry import _task_modules, registry
from jobqueue.states import Status
from jobqueue.testing import drain
from tests.contrib.moved import tasks
from tests.worker.conftest import effects, launch
from tests.worker.kinds import Launch
from tests.worker.waiting import until

__all__ = ["effects", "launch"]

APPS = {"PROBE_APPS": "jobqueue.contrib.celery,tests.contrib.moved"}


def row_of(result: Any) -> Job:
    return Job.objects.get(pk=int(result.id))


@pytest.mark.django_db
def test_a_task_knows_its_run() -> None:
    result = tasks.tells.delay()
    drain()

    assert result.get() == {
        "id": result.id,
        "retries": 0,
        "name": "moved.tells",
        "hostname": "run_once",
        "directly": False,
    }


@pytest.mark.django_db
def test_retries_are_counted_and_the_last_error_is_the_tasks_own() -> None:
    good, bad, silent = tasks.retries.delay(2), tasks.retries.delay(3), tasks.gives_up.delay()
    drain()

    assert good.get() == [2, 2]
    assert (bad.status, row_of(bad).attempts, row_of(bad).error_class) == (
        *("FAILURE", 3, "tests.contrib.moved.tasks.Busy"),
    )
    assert row_of(silent).error_class == "jobqueue.contrib.celery.requests.MaxRetriesExceededError"
    errors = Attempt.objects.filter(job_id=int(good.id)).order_by("number").values_list("error_text", flat=True)
    assert errors[0] == "Busy: later"


@pytest.mark.django_db
def test_a_call_may_lower_the_number_of_retries_and_is_told_that_it_cannot_raise_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lower, higher = tasks.retries.delay(9, limit=1), tasks.retries.delay(9, limit=5)
    with caplog.at_level(logging.WARNING, "jobqueue.run"):
        drain()

    assert (row_of(lower).attempts, row_of(higher).attempts) == (2, 3)
    told = [record.getMessage() for record in caplog.records if "retries beyond" in record.getMessage()]
    assert told == [f"retries beyond the task's own job_id={higher.id} retries=2: say @shared_task(max_retries=5)"]


@pytest.mark.django_db
def test_only_errors_that_are_named_are_retried_by_themselves() -> None:
    ends = {kind: tasks.fetch.delay(kind) for kind in ("busy", "gone", "bad")}
    drain()

    assert {kind: (row_of(end).status, row_of(end).attempts) for kind, end in ends.items()} == {
        "busy": (Status.DEAD, 2),
        "gone": (Status.DEAD, 1),
        "bad": (Status.DEAD, 1),
    }


@pytest.mark.django_db
def test_a_result_that_is_to_be_ignored_is_not_kept() -> None:
    result = tasks.forgets.delay()
    drain()

    assert (result.status, result.result) == ("SUCCESS", None)


@pytest.mark.parametrize(
    ("options", "delays"),
    [
        ({"retry_backoff": True, "retry_jitter": False}, [1, 2, 4, 600]),
        ({"retry_backoff": 5, "retry_backoff_max": 15, "retry_jitter": False}, [5, 10, 15, 15]),
        ({"retry_backoff": 0.5, "retry_jitter": False}, [1, 2, 4, 600]),
        ({}, [None] * 4),
        ({"retry_kwargs": {"countdown": 7}}, [7] * 4),
    ],
)
def test_the_backoff_is_celerys(options: dict[str, Any], delays: list[float | None]) -> None:
    task = CeleryTask(tasks.add.run, TaskOptions(name="moved.backoff", **options))

    assert [task._automatic(retries).get("countdown") for retries in (0, 1, 2, 99)] == delays


def test_jitter_spreads_a_delay_over_all_of_it() -> None:
    task = CeleryTask(tasks.add.run, TaskOptions(name="moved.jitter", retry_backoff=100))
    drawn = [task._automatic(0)["countdown"] for _ in range(200)]

    assert 0 <= min(drawn) < 20
    assert 80 < max(drawn) <= 100


def test_a_worker_finds_the_tasks_of_installed_apps_and_runs_them(launch: Launch) -> None:
    """Retries, an error, a killed process and a limit, as Celery's users know them; and the next task is run."""
    worker = launch("--queues", "*", "--processes", "1", env=APPS)
    worker.may_show_tracebacks = True
    killed, slow, good = tasks.is_killed.delay(), tasks.runs_too_long.delay(), tasks.retries.delay(2)
    busy, told, after = tasks.fetch.delay("busy"), tasks.tells.delay(), tasks.add.delay(1, 2)
    everything = (killed, slow, good, busy, told, after)

    until(
        lambda: all(one.ready() for one in everything), within=40, what=lambda: str([one.status for one in everything])
    )

    assert [one.status for one in everything] == ["FAILURE", "FAILURE", "SUCCESS", "FAILURE", "SUCCESS", "SUCCESS"]
    assert (row_of(killed).attempts, row_of(killed).error_class) == (2, "jobqueue.exceptions.JobCrashed")
    assert (row_of(slow).attempts, row_of(slow).error_class) == (1, "jobqueue.exceptions.JobDeadlineExceeded")
    assert (row_of(busy).attempts, row_of(busy).error_class) == (2, "tests.contrib.moved.tasks.Busy")
    assert (good.get(), after.get(timeout=5)) == ([2, 2], 3)
    assert told.get()["hostname"] == worker.worker_id
    assert worker.code is None


def test_the_app_names_the_modules_that_workers_import(settings: Any) -> None:
    """The tasks modules of all apps and those of Celery's two settings, also where TASKS does not name our backend."""
    settings.TASKS = {}
    assert _task_modules() == []
    settings.CELERY_IMPORTS, settings.CELERY_INCLUDE = "shop.late", ["shop.later"]
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "jobqueue.contrib.celery", "tests.contrib.moved"]

    modules = _task_modules()
    assert {"tests.probe.tasks", "tests.contrib.moved.tasks"} <= set(modules)
    assert modules[-2:] == ["shop.late", "shop.later"]


def test_a_module_that_cannot_be_imported_fails_its_own_tasks_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kept in vars(registry).items():
        if isinstance(kept, dict):
            monkeypatch.setattr(registry, name, dict(kept))
    monkeypatch.syspath_prepend(tmp_path)
    declared = "from jobqueue.contrib.celery import shared_task\n\n@shared_task\ndef half():\n    return 1\n"
    (tmp_path / "moved_broken.py").write_text(f"{declared}raise RuntimeError('no key')\n")

    registry._import("moved_broken")

    with pytest.raises(HandlerImportError, match="no key"):
        registry.get("moved_broken.half")
    assert registry.get("moved.tells") is tasks.tells
