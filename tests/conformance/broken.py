"""A backend for each check of the kit, which breaks that one sentence of the contract. It is named for the check."""

import functools
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection

from jobqueue.backends.compat import (
    InvalidTask,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
)

from .toy.backend import ToyBackend
from .toy.models import Row


class enqueue_returns_a_ready_result(ToyBackend):
    def result_of(self, row: Row) -> Any:
        result = super().result_of(row)
        if row.status == "READY":
            result.errors.append(TaskError(exception_class_path="builtins.ValueError", traceback=""))
        return result


class enqueue_normalises_arguments(ToyBackend):
    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().store(task, args, kwargs)
        object.__setattr__(result, "args", list(args))
        return result


class enqueue_validates_the_task_again(ToyBackend):
    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return self.store(task, args, kwargs)

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return await sync_to_async(ToyBackend.enqueue)(self, task, args, kwargs)


class aenqueue_validates_the_task_again(ToyBackend):
    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return await sync_to_async(self.store)(task, args, kwargs)


class aenqueue_does_what_enqueue_does(ToyBackend):
    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return await sync_to_async(self.enqueue)(task, args, {})


class _Changes(ToyBackend):
    """Stores another argument than it was given."""

    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        return super().store(task, [self.change(arg) for arg in args], kwargs)

    def change(self, arg: Any) -> Any:
        return arg


class enqueue_refuses_what_is_no_json(_Changes):
    def change(self, arg: Any) -> Any:
        return "object" if type(arg) is object else arg


class nan_is_refused_or_kept(_Changes):
    def change(self, arg: Any) -> Any:
        return None if arg != arg else arg


class nul_is_refused_or_kept(_Changes):
    def change(self, arg: Any) -> Any:
        return arg.replace("\0", "") if isinstance(arg, str) else arg


class _Accepts(ToyBackend):
    """Lets through what is refused with a word in the message, while tasks are made."""

    word = ""

    def validate_task(self, task: Any) -> None:
        try:
            super().validate_task(task)
        except InvalidTask as error:
            if self.word not in str(error):
                raise


class an_unknown_queue_is_refused(_Accepts):
    word = "Queue"


class a_priority_out_of_range_is_refused(_Accepts):
    word = "priority"


class a_naive_run_after_is_refused(_Accepts):
    word = "aware"


class a_nested_function_is_refused(_Accepts):
    word = "module level"


class a_missing_context_is_refused(_Accepts):
    word = "context"


class what_is_not_supported_is_refused(_Accepts):
    supports_priority = False
    word = "priority"


class empty_queues_accept_any(ToyBackend):
    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.queues = self.queues or {"default"}


class making_a_backend_asks_nothing(ToyBackend):
    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except SynchronousOnlyOperation:
            pass


class check_finds_no_fault(ToyBackend):
    def check(self, **kwargs: Any) -> Any:
        return ["fine"]


class override_settings_counts(ToyBackend):
    first: Any = None

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        type(self).first = self.options = type(self).first or {"kept": self.options}


def _earlier(result: Any) -> Any:
    object.__setattr__(result, "enqueued_at", result.enqueued_at - timedelta(milliseconds=1))
    return result


class get_result_equals_what_enqueue_returned(ToyBackend):
    def get_result(self, result_id: Any) -> Any:
        return _earlier(super().get_result(result_id))

    async def aget_result(self, result_id: Any) -> Any:
        return await sync_to_async(ToyBackend.get_result)(self, result_id)


class aget_result_equals_what_enqueue_returned(ToyBackend):
    async def aget_result(self, result_id: Any) -> Any:
        return _earlier(await super().aget_result(result_id))


class using_is_kept(ToyBackend):
    def result_of(self, row: Row) -> Any:
        result = super().result_of(row)
        object.__setattr__(result.task, "queue_name", "default")
        return result


class an_unknown_id_does_not_exist(ToyBackend):
    async def aget_result(self, result_id: Any) -> Any:
        try:
            return await super().aget_result(result_id)
        except TaskResultDoesNotExist:
            return None


class a_malformed_id_does_not_exist(ToyBackend):
    def get_result(self, result_id: Any) -> Any:
        if "\0" in result_id:
            raise ValueError("A string literal cannot contain NUL (0x00) characters.")
        return super().get_result(result_id)


class _Any:
    """A function that says it is equal to any."""

    def __init__(self, func: Any) -> None:
        functools.update_wrapper(self, func)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class the_result_of_another_task_is_a_mismatch(ToyBackend):
    def get_result(self, result_id: Any) -> Any:
        result = super().get_result(result_id)
        object.__setattr__(result.task, "func", _Any(result.task.func))
        return result


class the_alias_is_kept(ToyBackend):
    def result_of(self, row: Row) -> Any:
        result = super().result_of(row)
        object.__setattr__(result, "backend", "default")
        return result


class a_successful_result_tells_all(ToyBackend):
    def end(self, row: Row, status: str) -> None:
        super().end(row, status)
        row.state["finished_at"] = row.state["enqueued_at"]
        row.save()


class _Stale(TaskResult):  # type: ignore[type-arg]
    def refresh(self) -> None:
        pass


class _StaleAsync(TaskResult):  # type: ignore[type-arg]
    async def arefresh(self) -> None:
        pass


class refresh_reads_again(ToyBackend):
    result_class = _Stale


class arefresh_reads_again(ToyBackend):
    result_class = _StaleAsync


class a_failed_result_tells_all(ToyBackend):
    def end(self, row: Row, status: str) -> None:
        row.state["errors"] = [[path, ""] for path, _ in row.state["errors"]]
        super().end(row, status)


class a_worker_id_for_each_attempt(ToyBackend):
    def end(self, row: Row, status: str) -> None:
        row.state["errors"] *= 2
        super().end(row, status)


class a_return_value_is_normalised(ToyBackend):
    def call(self, result: Any) -> Any:
        value = super().call(result)
        return repr(value) if isinstance(value, tuple) else value


class arguments_reach_the_task(ToyBackend):
    def call(self, result: Any) -> Any:
        kwargs = {name: value[:1000] if isinstance(value, str) else value for name, value in result.kwargs.items()}
        object.__setattr__(result, "kwargs", kwargs)
        return super().call(result)
