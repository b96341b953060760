"""The smallest backend that keeps the contract, so that broken.py can break one sentence at a time.

No example for real work: one worker at a time, and a task that was cut off is simply begun again.
"""

import json
import traceback
import uuid
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from jobqueue.backends.compat import (
    BaseTaskBackend,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)

from .models import Row

TIMES = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


class ToyBackend(BaseTaskBackend):
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    result_class: Any = TaskResult

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        super().validate_task(task)  # not our own: a fault of validation is one of import alone
        return self.store(task, args, kwargs)

    def store(self, task: Any, args: Any, kwargs: Any) -> Any:
        state = {"args": self.normalised(list(args)), "kwargs": self.normalised(dict(kwargs)), "queue": task.queue_name}
        state |= {"errors": [], "worker_ids": [], "value": None, "enqueued_at": timezone.now().isoformat()}
        row = Row(
            key=str(uuid.uuid4()),
            alias=self.alias,
            status="READY",
            priority=task.priority,
            run_after=task.run_after,
            path=task.module_path,
            state=state,
        )
        row.save()
        result = self.result_of(row)
        self.send(task_enqueued, result)
        return result

    def normalised(self, value: Any) -> Any:
        if "\\u0000" in json.dumps(normalize_json(value), allow_nan=False):
            raise ValueError("NUL")
        return normalize_json(value)

    def get_result(self, result_id: Any) -> Any:
        row = Row.objects.filter(key=str(result_id), alias=self.alias).first()
        if row is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(row)

    def result_of(self, row: Row) -> Any:
        state = row.state
        task = import_string(row.path).using(
            priority=row.priority, queue_name=state["queue"], run_after=row.run_after, backend=row.alias
        )
        times = {name: datetime.fromisoformat(state[name]) if state.get(name) else None for name in TIMES}
        result = self.result_class(
            task=task,
            id=row.key,
            status=TaskResultStatus[row.status],
            backend=row.alias,
            **{"args": state["args"], "kwargs": state["kwargs"], "worker_ids": state["worker_ids"], **times},
            errors=[TaskError(exception_class_path=path, traceback=text) for path, text in state["errors"]],
        )
        object.__setattr__(result, "_return_value", state["value"])
        return result

    def send(self, signal: Any, result: Any) -> None:
        signal.send(sender=type(self), task_result=result)

    def due(self) -> Any:
        now = timezone.now()
        ready = Row.objects.filter(alias=self.alias, status__in=["READY", "RUNNING"])
        return ready.exclude(run_after__gt=now).order_by("-priority", "pk")

    def drain(self) -> None:
        while (row := self.due().first()) is not None:
            if row.status == "RUNNING" and len(row.state["worker_ids"]) > 1:  # killed more than once
                row.status = "FAILED"
                row.state["errors"].append(["builtins.SystemError", "its process died"])
                row.save()
            else:
                self.run(row)

    def run(self, row: Row) -> None:
        now = timezone.now().isoformat()
        row.status, state = "RUNNING", row.state
        state["worker_ids"].append("toy")
        state |= {"started_at": state.get("started_at") or now, "last_attempted_at": now}
        row.save()
        result = self.result_of(row)
        self.send(task_started, result)
        try:
            state["value"] = self.normalised(self.call(result))
            self.end(row, "SUCCESSFUL")
            self.send(task_finished, self.result_of(row))
        except BaseException as error:
            self.fail(row, error)
            self.send(task_finished, self.result_of(row))

    def call(self, result: Any) -> Any:
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        return result.task.call(*context, *result.args, **result.kwargs)

    def fail(self, row: Row, error: BaseException) -> None:
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        text = "".join(traceback.format_exception(error))[-10_000:].encode(errors="replace").decode()
        row.state["errors"].append([path, text.replace("\0", "?")])
        self.end(row, "FAILED")

    def end(self, row: Row, status: str) -> None:
        row.status = status
        row.state["finished_at"] = timezone.now().isoformat()
        row.save()
