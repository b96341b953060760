"""What is enqueued: a task with its arguments, checked before any SQL runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from jobqueue.conf import get_settings
from jobqueue.payloads import Encoded, encode_payload

from .compat import Task, normalize_json, path_of
from .naming import type_of
from .policies import TaskPolicy, dedupe_key
from .results import RETRIED


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """One task of enqueue_many(); ``dedupe_key``, ``owner`` and ``max_attempts`` go over what its policy says."""

    task: Task[Any, Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dedupe_key: str | None = None
    owner: str = ""
    max_attempts: int | None = None


def normal_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments as JSON has them. Raises TypeError or ValueError that names the one that is none."""
    return (
        [_normal(value, f"args[{place}]") for place, value in enumerate(args)],
        {str(name): _normal(value, f"kwargs[{name!r}]") for name, value in kwargs.items()},
    )


def _normal(value: Any, where: str) -> Any:
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} in {where}") from error
    except RecursionError as error:
        raise ValueError(f"nested too deeply in {where}") from error


def payload_of(
    task: Task[Any, Any], args: list[Any], kwargs: dict[str, Any], *, retried: bool = False
) -> dict[str, Any]:
    """Return what the job carries: the arguments, the alias, and what its columns cannot tell."""
    path = path_of(task.func)
    payload: dict[str, Any] = {"args": args, "kwargs": kwargs, "backend": task.backend}
    if type_of(path) != path:
        payload["path"] = path
    if task.run_after is not None:
        payload["run_after"] = task.run_after.astimezone(UTC).isoformat()
    if retried:
        payload[RETRIED] = True
    return payload


def check_storable(task: Task[Any, Any], payload: Mapping[str, Any]) -> Encoded:
    """Refuse what jsonb cannot hold, also where nothing is stored: PayloadError names the value and the rule."""
    return encode_payload(payload, max_bytes=get_settings().PAYLOAD_MAX_BYTES, job_type=type_of(path_of(task.func)))


def key_of(call: TaskCall, policy: TaskPolicy, args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """Return the dedupe key of a call, None for none; the task and its alias are part of it."""
    own = call.dedupe_key or dedupe_key(policy.dedupe, call.task.func, args, kwargs)
    return f"{call.task.backend}/{type_of(path_of(call.task.func))}/{own}" if own else None
