"""What is said of a task beyond the tasks API: by @policy, by @task where it forwards keywords, by OPTIONS."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import django
import pytest
from django.test.utils import override_settings

from jobqueue import Backoff, Limits
from jobqueue.backends import TaskPolicy, policy, task
from jobqueue.backends.compat import TaskResultStatus, task_backends
from jobqueue.backends.handling import TaskHandler, handler_of
from jobqueue.backends.naming import type_of
from jobqueue.backends.policies import Options, dedupe_key, named_arguments
from jobqueue.exceptions import ConfigurationError
from tests.backends import tasks
from tests.worker.launching import ROOT

FORWARDS = not (6, 0) <= django.VERSION < (6, 1)
LONG = tasks.says_its_name_at_length_although_nobody_asked_for_a_name_of_more_than_sixty_three_bytes
READY, FAILED = TaskResultStatus.READY, TaskResultStatus.FAILED


def backend(**options: Any) -> dict[str, Any]:
    return {"default": {"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": [], "OPTIONS": options}}


def function() -> None:
    """Be decorated."""


def test_the_wrong_order_is_refused_with_the_right_one_shown() -> None:
    with pytest.raises(TypeError, match="under @task") as refused:
        policy(max_attempts=5)(tasks.adds)  # type: ignore[type-var]

    assert "    @task\n    @policy(max_attempts=5)\n    def adds(...)" in str(refused.value)


def test_policy_is_asked_for_with_what_it_says() -> None:
    with pytest.raises(TypeError, match="under @task"):
        policy()(policy)(max_attempts=1)(5)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attemps": 3},
        {"backoff": 5},
        {"limits": {"duration": 5}},
        {"on_deadline": "ignore"},
        {"dedupe": 5},
        {"cost": 0.1},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_at_import(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        policy(**options)
    if not isinstance(options.get("limits"), dict):  # in settings a dict will do
        with pytest.raises(ConfigurationError):
            Options({"tasks": {"a.b": options}})


def test_two_policies_are_one_too_many() -> None:
    def local() -> None: ...

    with pytest.raises(TypeError, match="two @policy"):
        policy(max_attempts=2)(policy(max_attempts=3)(local))


def test_the_operator_comes_first_then_the_task_then_the_backend() -> None:
    def local() -> None: ...

    policy(max_attempts=3, limits=Limits(duration=60))(local)
    options = Options(
        {
            "max_attempts": 9,
            "on_deadline": "retry",
            "backoff": {"base": 1, "cap": 2},
            "limits": {"duration": 5, "payload_bytes": 100},
            "tasks": {"a.b": {"limits": {"memory_bytes": 2**30}}},
        }
    )

    told = options.policy("a.b", TaskPolicy(), local)

    assert (told.max_attempts, told.on_deadline, told.backoff) == (3, "retry", Backoff(base=1, cap=2))
    assert told.limits == Limits(duration=60, payload_bytes=100, memory_bytes=2**30)
    assert options.policy("a.b", TaskPolicy(max_attempts=4), local).max_attempts == 4
    assert options.policy("a.c", TaskPolicy(), function).max_attempts == 9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_attemps": 3}, "OPTIONS: unknown max_attemps"),
        ({"tasks": ["a.b"]}, "must be a dict by the path"),
        ({"tasks": {"a.b": 3}}, r"OPTIONS\['tasks'\]\['a.b'\] must be a dict"),
        ({"tasks": {"a.b": {"max_attempts": 0}}}, r"\['a.b'\]: max_attempts"),
        ({"limits": {"durations": 5}}, "OPTIONS: .*durations"),
        ({"modules": "app.mail"}, "must be a list"),
    ],
)
def test_wrong_options_are_told_by_check_and_at_enqueue(options: dict[str, Any], text: str) -> None:
    with override_settings(TASKS=backend(**options)):
        found = list(task_backends["default"].check())
        with pytest.raises(ConfigurationError, match=text):
            tasks.adds.enqueue(1)

    assert [message.id for message in found] == ["jobqueue.E014"]


def test_check_names_missing_tasks_impossible_queues_and_the_missing_app() -> None:
    assert [message.id for message in task_backends["default"].check()] == []
    with override_settings(TASKS=backend(tasks={"tests.backends.tasks.gone": {"max_attempts": 1}})):
        (message,) = task_backends["default"].check()
        assert (message.id, "tests.backends.tasks.gone" in message.msg) == ("jobqueue.W014", True)
    queues = {"default": {"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": ["no queue"]}}
    with override_settings(TASKS=queues):
        assert [message.id for message in task_backends["default"].check()] == ["jobqueue.E014"]


def test_a_path_is_the_job_type_or_a_name_that_fits() -> None:
    long = (
        "tests.backends.tasks.says_its_name_at_length_although_nobody_asked_for_a_name_of_more_than_sixty_three_bytes"
    )

    assert type_of("app.tasks.send") == "app.tasks.send"
    for path in (long, "app.tasks.größe", "jobqueue.testing.tasks.adds", "x" * 63 + ".f", ".".join("a" * 40)):
        name = type_of(path)
        assert name.startswith("task.")
        assert len(name) <= 63
        assert name.isascii()
        assert name != type_of(path + "_")
    assert type_of(long).endswith(type_of(long)[-8:])


@pytest.mark.skipif(FORWARDS, reason="only Django 6.0 forwards no keywords of @task")
def test_django_60_has_the_decorator_only() -> None:
    with pytest.raises(TypeError):
        task(max_attempts=7)(tasks.plain_function)


def test_a_handler_tells_its_policy_to_the_worker() -> None:
    handler = handler_of(tasks.fails_twice)

    told = handler.policy()

    assert isinstance(handler, TaskHandler)
    assert (told.name, told.max_attempts, told.backoff, told.is_async) == (
        "tests.backends.tasks.fails_twice",
        3,
        Backoff(base=0, cap=0),
        False,
    )
    assert handler_of(tasks.waits).policy().is_async
    assert handler_of(tasks.adds).policy().on_deadline == "dead"
    for refused in (handler.enqueue, handler.aenqueue):
        with pytest.raises(TypeError, match=r"fails_twice\.enqueue"):
            refused()


def test_keys_are_made_of_the_arguments() -> None:
    def read(path: str, page: int = 1) -> None: ...

    assert dedupe_key("r:{path}:{page}", read, ["a"], {}) == "r:a:1"
    assert dedupe_key(lambda path: path.upper(), read, ["a"], {}) == "A"
    assert dedupe_key(lambda path: None, read, ["a"], {}) == ""
    assert dedupe_key(True, read, ["a"], {}) == dedupe_key(True, read, ["a"], {}) != dedupe_key(True, read, ["b"], {})
    assert dedupe_key(None, read, ["a"], {}) == dedupe_key(False, read, ["a"], {}) == ""
    with pytest.raises(TypeError, match="does not fit the arguments of"):
        dedupe_key("{nothing}", read, ["a"], {})
    assert named_arguments(read, ["a"], {}) == {"path": "a", "page": 1}
    assert named_arguments(read, [1, 2, 3], {"x": 1}) == {"x": 1}


WITHOUT_APP = """
import django
from django.conf import settings
apps = [] if django.VERSION >= (6, 0) else ["django_tasks"]
backend = {"BACKEND": "jobqueue.backends.JobQueueBackend"}
settings.configure(INSTALLED_APPS=apps, TASKS={"default": backend}, USE_TZ=True)
django.setup()
from jobqueue.backends import task_backends
print([(message.id, message.msg) for message in task_backends["default"].check()])
"""


def test_check_says_that_the_app_is_missing() -> None:
    told = subprocess.run([sys.executable, "-c", WITHOUT_APP], capture_output=True, text=True, check=False, cwd=ROOT)

    assert told.returncode == 0, told.stderr
    assert told.stdout == "[('jobqueue.E014', \"TASKS['default'] needs the app jobqueue\")]\n"
