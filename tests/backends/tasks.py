"""Tasks in a module that no app's discovery imports: a worker's child finds them by their path."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from decimal import Decimal
from typing import Any

from jobqueue import Backoff, Limits, Retry
from jobqueue.backends import policy, task
from jobqueue.backends.compat import TaskContext
from tests.backends import recording
from tests.probe.tasks import waits

__all__ = ["waits"]


@task
def adds(*numbers: int, start: int = 0) -> int:
    """Add up."""
    return sum(numbers, start)


@task
def echoes(*args: Any, **kwargs: Any) -> Any:
    """Return what it was given."""
    return {"args": args, "kwargs": kwargs}


@task(takes_context=True)
def tells(context: TaskContext, word: str = "") -> dict[str, Any]:
    """Tell what the context knows."""
    result = context.task_result
    return {"attempt": context.attempt, "id": result.id, "status": str(result.status), "word": word}


@task(takes_context=True)
async def waits_with_context(context: TaskContext) -> int:
    """Tell the attempt, as a coroutine."""
    await asyncio.sleep(0)
    return context.attempt


@task
def fails(text: str = "no") -> None:
    """Fail with a text."""
    raise ValueError(text)


@task
def raises_in_turn(kind: str) -> Any:
    """End in a way that a careless worker would not survive."""
    if kind == "exit":
        sys.exit(0)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "object":
        return object()
    if kind == "nan":
        return float("nan")
    if kind == "nul":
        return "a\x00b"
    os.kill(os.getpid(), signal.SIGKILL)
    return None


@task
@policy(max_attempts=3, backoff=Backoff(base=0, cap=0))
def fails_twice(fail: int = 2) -> None:
    """Fail, and be tried again."""
    raise RuntimeError(f"failed of {fail}")


@task(takes_context=True)
@policy(max_attempts=3, backoff=Backoff(base=0, cap=0))
def succeeds_third(context: TaskContext) -> list[int]:
    """Succeed at the third attempt."""
    if context.attempt < 3:
        raise RuntimeError(f"attempt {context.attempt}")
    return [context.attempt, len(context.task_result.errors), len(context.task_result.worker_ids)]


@task
def asks_for_more() -> None:
    """Ask for another attempt, whatever the policy says of errors."""
    raise Retry(0)


@task
@policy(limits=Limits(duration=0.5))
def runs_too_long() -> None:
    """Run past its limit."""
    signal.pause()


@task
@policy(limits=Limits(payload_fields={"pages": 10}))
def reads(path: str, pages: int = 1) -> int:
    """Read a bounded number of pages."""
    return pages


@task
@policy(dedupe="read:{path}")
def reads_once(path: str) -> str:
    """Be waiting once for each path."""
    return path


@task
@policy(dedupe=True, cost=Decimal("0.25"))
def costs(number: int) -> int:
    """Cost a quarter."""
    return number


@task(takes_context=True)
def reports(context: Any) -> int:
    """Use the job's own context."""
    context.job.progress(50, "half")
    context.job.add_cost("tokens", Decimal("0.5"))
    return int(context.job.job_id)


@task
def says_its_name_at_length_although_nobody_asked_for_a_name_of_more_than_sixty_three_bytes() -> str:
    """Have a path that no job type has room for."""
    return "long"


@task
def größe(size: int) -> int:  # noqa: PLC2401
    """Have a path that is not ASCII."""
    return size


plain_function = adds.func

recording.connect()
