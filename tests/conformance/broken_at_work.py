"""As broken.py, for what comes after enqueueing: transactions, signals, running, hostile tasks, crashes."""

import inspect
import threading
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from jobqueue.backends.compat import (
    TaskContext,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)

from .toy.backend import ToyBackend
from .toy.models import Row


class a_task_is_seen_within_its_transaction(ToyBackend):
    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().store(task, args, kwargs)
        if connection.in_atomic_block:
            row = Row.objects.get(key=result.id)
            row.delete()
            row.pk = None
            transaction.on_commit(row.save)
        return result


class _Outlives(ToyBackend):
    """Keeps what was enqueued in a transaction elsewhere, too."""

    kept: dict[str, Row] = {}
    of_savepoints = False

    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().store(task, args, kwargs)
        if connection.in_atomic_block and bool(connection.savepoint_ids) == self.of_savepoints:
            self.kept[result.id] = Row.objects.get(key=result.id)
        return result

    def get_result(self, result_id: Any) -> Any:
        try:
            return super().get_result(result_id)
        except TaskResultDoesNotExist:
            if result_id not in self.kept:
                raise
            return self.result_of(self.kept[result_id])


class a_rollback_takes_the_task_away(_Outlives):
    pass


class a_rollback_to_a_savepoint_takes_the_task_away(_Outlives):
    of_savepoints = True


class a_committed_task_runs(ToyBackend):
    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().store(task, args, kwargs)
        if connection.in_atomic_block:
            Row.objects.filter(key=result.id).update(run_after=timezone.now() + timedelta(days=1))
        return result


class task_enqueued_is_sent(ToyBackend):
    def send(self, signal: Any, result: Any) -> None:
        signal.send(sender=self if signal is task_enqueued else type(self), task_result=result)


class task_started_is_sent(ToyBackend):
    def send(self, signal: Any, result: Any) -> None:
        signal.send(sender=self if signal is task_started else type(self), task_result=result)


class task_finished_is_sent_after_success(ToyBackend):
    def send(self, signal: Any, result: Any) -> None:
        is_it = signal is task_finished and result.status == TaskResultStatus.SUCCESSFUL
        signal.send(sender=self if is_it else type(self), task_result=result)


class task_finished_is_sent_while_the_error_is_handled(ToyBackend):
    def send(self, signal: Any, result: Any) -> None:
        elsewhere = threading.Thread(target=super().send, args=(signal, result))
        elsewhere.start()
        elsewhere.join()


class each_signal_is_sent_once(ToyBackend):
    def send(self, signal: Any, result: Any) -> None:
        for _ in range(1 + (signal is task_started)):
            super().send(signal, result)


class a_coroutine_runs(ToyBackend):
    def call(self, result: Any) -> Any:
        value = super().call(result)
        return "<coroutine>" if inspect.iscoroutinefunction(result.task.func) else value


class a_coroutine_fails(ToyBackend):
    def call(self, result: Any) -> Any:
        try:
            return super().call(result)
        except LookupError:
            return None


class the_context_tells_of_the_task(ToyBackend):
    def call(self, result: Any) -> Any:
        if result.task.takes_context:
            other = self.get_result(result.id)
            object.__setattr__(other, "worker_ids", [])
            return result.task.call(TaskContext(task_result=other), *result.args)
        return super().call(result)


class a_higher_priority_runs_first(ToyBackend):
    def due(self) -> Any:
        return super().due().order_by("pk")


class a_deferred_task_waits(ToyBackend):
    def due(self) -> Any:
        return Row.objects.filter(status="READY").order_by("-priority", "pk")


class a_deferred_task_runs_when_it_is_due(ToyBackend):
    def due(self) -> Any:
        return super().due().filter(run_after=None)


class a_task_of_another_queue_runs(ToyBackend):
    def due(self) -> Any:
        return super().due().filter(state__queue="default")


class _Stands(ToyBackend):
    """A task that was cut off stays RUNNING, if it is one of these."""

    of_these: dict[str, Any] = {}

    def due(self) -> Any:
        return super().due().exclude(status="RUNNING", **self.of_these)


class a_killed_worker_leaves_nothing_running(_Stands):
    of_these = {"path__endswith": "takes_its_time", "state__args__1": 300}


class a_stopped_worker_leaves_nothing_running(_Stands):
    of_these = {"path__endswith": "takes_its_time", "state__args__1": 3}


class a_task_that_is_killed_does_not_stay_running(_Stands):
    of_these = {"path__endswith": "kills_its_process"}


class a_task_that_leaves_its_process_does_not_stay_running(_Stands):
    of_these = {"path__endswith": "leaves_its_process"}


def _dies_of(task: str) -> type[ToyBackend]:
    """Return a backend whose worker dies of one task."""

    def run(self: ToyBackend, row: Row) -> None:
        if row.path.endswith(f".{task}"):
            raise RuntimeError("the worker has died of it")
        ToyBackend.run(self, row)

    return type("Dies", (ToyBackend,), {"run": run})


system_exit_fails = _dies_of("exits")
keyboard_interrupt_fails = _dies_of("interrupts")
a_base_exception_fails = _dies_of("raises_base")
a_return_value_that_is_no_json_fails = _dies_of("returns_object")
a_nan_returned_ends = _dies_of("returns_nan")
a_nul_returned_ends = _dies_of("returns_nul")
an_unpicklable_exception_fails = _dies_of("raises_unpicklable")
a_huge_exception_fails = _dies_of("raises_huge")
a_speechless_exception_fails = _dies_of("raises_speechless")
an_exception_with_nul_fails = _dies_of("raises_nul")
an_exception_with_half_a_pair_fails = _dies_of("raises_surrogate")
closed_connections_do_no_harm = _dies_of("closes_connections")
