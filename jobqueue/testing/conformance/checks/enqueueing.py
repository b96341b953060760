"""Enqueueing: what is returned, what is refused, and when settings count."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.core.checks import ERROR, CheckMessage
from django.db import DatabaseError
from django.utils import timezone as django_timezone

from jobqueue.testing.conformance import api, tasks
from jobqueue.testing.conformance.registry import NotSupported, check

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench


def refusal(call: Callable[[], Any], *kinds: type[BaseException]) -> BaseException:
    """Return the error of one of the kinds that a call raises; fail where it raises none or another."""
    try:
        returned = call()
    except kinds as error:
        return error
    except Exception as error:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise AssertionError(f"raised {type(error).__name__} ({error}), not {names}") from error
    raise AssertionError(f"accepted, and returned {returned!r}")


def changed(task: Any, **values: Any) -> Any:
    """Return a copy of a task that nobody has validated."""
    other = copy.copy(task)
    for name, value in values.items():
        object.__setattr__(other, name, value)
    return other


@check()
def enqueue_returns_a_ready_result(bench: Bench) -> None:
    """enqueue() returns a TaskResult: READY, a text as id, the alias, the arguments, no errors and no workers."""
    result = tasks.echoes.enqueue(1, b="two")
    assert isinstance(result.id, str), "the id is no text"
    assert result.id, "the id is empty"
    assert result.status == api.READY
    assert (list(result.args), dict(result.kwargs)) == ([1], {"b": "two"})
    assert (result.backend, list(result.errors), list(result.worker_ids)) == ("default", [], [])
    assert (result.attempts, result.is_finished, result.finished_at) == (0, False, None)
    assert result.task == tasks.echoes


@check()
def enqueue_normalises_arguments(bench: Bench) -> None:
    """The arguments in the result are as JSON has them: tuples have become lists."""
    result = tasks.echoes.enqueue((1, (2,)), key={"of": (3,)})
    assert repr((list(result.args), dict(result.kwargs))) == repr(([[1, [2]]], {"key": {"of": [3]}}))


@check()
def enqueue_validates_the_task_again(bench: Bench) -> None:
    """enqueue() validates the task again, since settings may have changed after its import."""
    refusal(lambda: changed(tasks.marks, func=lambda mark: mark).enqueue("x"), api.InvalidTask)


@check()
def aenqueue_validates_the_task_again(bench: Bench) -> None:
    """aenqueue() validates the task again, too."""
    invalid = changed(tasks.marks, func=lambda mark: mark)
    refusal(lambda: async_to_sync(invalid.aenqueue)("x"), api.InvalidTask)


@check()
def aenqueue_does_what_enqueue_does(bench: Bench) -> None:
    """aenqueue() returns what enqueue() would."""
    result = async_to_sync(tasks.echoes.aenqueue)(1, b="two")
    assert (result.status, list(result.args), dict(result.kwargs)) == (api.READY, [1], {"b": "two"})


@check()
def enqueue_refuses_what_is_no_json(bench: Bench) -> None:
    """An argument that JSON has no word for is refused by TypeError or ValueError."""
    refusal(lambda: tasks.echoes.enqueue(object()), TypeError, ValueError)


def _refused_or_kept(bench: Bench, value: Any) -> None:
    try:
        result = tasks.echoes.enqueue(value)
    except DatabaseError as error:
        raise AssertionError(f"raised the database's {type(error).__name__}: {error}") from error
    except Exception:  # noqa: BLE001 (its own, which can say what is wrong)
        return
    assert repr(result.args[0]) == repr(value), "the result has another value than was given"
    if bench.supports("get_result"):
        assert repr(bench.get(result).args[0]) == repr(value), "another value than was given is stored"


@check()
def nan_is_refused_or_kept(bench: Bench) -> None:
    """NaN as an argument is refused by an error of the backend, or kept: no error of the database, no other value."""
    _refused_or_kept(bench, float("nan"))


@check()
def nul_is_refused_or_kept(bench: Bench) -> None:
    """A text with NUL as an argument is refused by an error of the backend, or kept."""
    _refused_or_kept(bench, "a\0b")


@check()
def an_unknown_queue_is_refused(bench: Bench) -> None:
    """A queue that QUEUES does not name is refused by InvalidTask."""
    refusal(lambda: tasks.marks.using(queue_name="nobody_knows_it"), api.InvalidTask)


@check()
def empty_queues_accept_any(bench: Bench) -> None:
    """With QUEUES empty any name is accepted."""
    with bench.settings(QUEUES=[]):
        assert tasks.marks.using(queue_name="any_name").queue_name == "any_name"


@check("priority")
def a_priority_out_of_range_is_refused(bench: Bench) -> None:
    """Priorities are whole numbers from -100 to 100; others are refused by InvalidTask."""
    for priority in (-101, 101, 1.5):
        refusal(partial(tasks.marks.using, priority=priority), api.InvalidTask)


@check("defer")
def a_naive_run_after_is_refused(bench: Bench) -> None:
    """A run_after without a time zone is refused by InvalidTask."""
    refusal(lambda: tasks.marks.using(run_after=datetime.now()), api.InvalidTask)  # noqa: DTZ005


@check()
def a_nested_function_is_refused(bench: Bench) -> None:
    """A function that is not at a module's level is refused by InvalidTask."""

    def nested() -> None:
        """Do nothing."""

    refusal(lambda: api.task()(nested), api.InvalidTask)


@check()
def a_missing_context_is_refused(bench: Bench) -> None:
    """takes_context without a first argument called context is refused by InvalidTask."""
    refusal(lambda: api.task(takes_context=True)(tasks.needs_context), api.InvalidTask)


@check()
def what_is_not_supported_is_refused(bench: Bench) -> None:
    """What the backend does not support (priority, run_after, async) is refused by InvalidTask."""

    def use(feature: str) -> Any:
        if feature == "priority":
            return tasks.marks.using(priority=1)
        if feature == "defer":
            return tasks.marks.using(run_after=django_timezone.now() + timedelta(hours=1))
        from jobqueue.testing.conformance import async_tasks  # noqa: PLC0415

        return async_tasks.adds.using(queue_name="default")

    missing = [feature for feature in ("priority", "defer", "async_task") if not bench.supports(feature)]
    if not missing:
        raise NotSupported("the backend supports all there is")
    for feature in missing:
        refusal(partial(use, feature), api.InvalidTask)


@check("database")
def making_a_backend_asks_nothing(bench: Bench) -> None:
    """Making a backend and validating a task asks no database: both happen while modules are imported."""
    with bench.no_queries(), bench.settings():
        bench.backend.validate_task(tasks.marks)


@check()
def check_finds_no_fault(bench: Bench) -> None:
    """check() returns messages for `manage.py check`, and none that is an error for settings that are right."""
    found = list(bench.backend.check())
    assert all(isinstance(message, CheckMessage) for message in found), f"no messages: {found}"
    assert not [message for message in found if message.level >= ERROR], f"errors: {found}"


@check()
def override_settings_counts(bench: Bench) -> None:
    """override_settings(TASKS=…) counts at once, and no longer than it lasts."""
    before = dict(bench.backend.options)
    during: AbstractContextManager[None] = bench.settings(OPTIONS={**before, "of_the_kit": 1})
    with during:
        try:
            assert bench.backend.options.get("of_the_kit") == 1, "the change does not count"
        except (TypeError, ValueError) as error:
            raise NotSupported(f"the backend takes no unknown option: {error}") from error
    assert dict(bench.backend.options) == before, "the change outlives its block"
