"""assert_enqueued() and assert_not_enqueued(): which jobs are there, and where none fits, which ones are instead.

assert_enqueued("shop.invoice", {"path": "a.pdf"}, queue="documents", run_after=timedelta(hours=1), count=1)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connections

from jobqueue.conf import get_settings
from jobqueue.exceptions import PayloadError
from jobqueue.managers.waking import Wake
from jobqueue.models import Job
from jobqueue.payloads import encode_payload
from jobqueue.registry import registry
from jobqueue.states import status_name

from .naming import Named, name_of

PayloadMatch = Mapping[str, Any] | Callable[[dict[str, Any]], object]
"""Part of a payload, to any depth; or a function that is given one and tells whether it fits."""

#: Instants that are computed by two clocks, the test's and the server's, differ by this much at most.
TOLERANCE: Final = timedelta(seconds=5)

# Frames of this module are left out where a failure is shown: by unittest, and below by pytest.
__unittest = True

_SHOWN: Final = 20
_MISSING: Final = object()


def assert_enqueued(
    job_type: Named,
    payload_matching: PayloadMatch | None = None,
    *,
    queue: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: timedelta = TOLERANCE,
    count: int | None = None,
    among: Iterable[Job] | None = None,
) -> list[Job]:
    """Return the jobs that fit, oldest first; raise AssertionError, showing what is there, where none does.

    Every job of the table counts, whatever became of it since; `among` narrows to those of capture_jobs().
    `payload_matching` is a part of the payload (nested objects may be parts, too) or a function of it. `run_after` is
    an instant, or the time between enqueue and start: timedelta(0) for at once; both within `tolerance`. With `count`
    exactly so many must fit. What is left out is not compared.
    """
    __tracebackhide__ = True
    wanted = _Wanted(name_of(job_type), payload_matching, queue, run_after, tolerance)
    jobs = _all_jobs() if among is None else list(among)
    found = [job for job in jobs if wanted.misfit(job) is None]
    if (count is None and not found) or (count is not None and len(found) != count):
        raise AssertionError("\n".join(_told(wanted, jobs, found, count)))
    return found


def assert_not_enqueued(
    job_type: Named,
    payload_matching: PayloadMatch | None = None,
    *,
    queue: str | None = None,
    run_after: datetime | timedelta | None = None,
    tolerance: timedelta = TOLERANCE,
    among: Iterable[Job] | None = None,
) -> None:
    """Raise AssertionError, showing them, where jobs fit; arguments as of assert_enqueued()."""
    __tracebackhide__ = True
    options: dict[str, Any] = {"queue": queue, "run_after": run_after, "tolerance": tolerance, "among": among}
    assert_enqueued(job_type, payload_matching, count=0, **options)


@dataclass(frozen=True, slots=True)
class _Wanted:
    job_type: str
    payload: PayloadMatch | None
    queue: str | None
    run_after: datetime | timedelta | None
    tolerance: timedelta

    def __str__(self) -> str:
        parts = [f"{self.job_type!r}"]
        if self.payload is not None:
            parts.append(f"payload {getattr(self.payload, '__name__', self.payload)}")
        if self.queue is not None:
            parts.append(f"queue {self.queue!r}")
        if self.run_after is not None:
            parts.append(f"run_after {_when(self.run_after)} (within {self.tolerance.total_seconds():g} s)")
        return ", ".join(parts)

    def misfit(self, job: Job) -> str | None:
        """Return why a job is not wanted, None where it is."""
        if job.job_type != self.job_type:
            return "another type"
        if self.queue is not None and job.queue != self.queue:
            return f"queue is {job.queue!r}"
        if self.run_after is not None and (late := self._late(job)) is not None:
            return f"run_after is {_when(late)}"
        if callable(self.payload):
            return None if self.payload(job.payload) else "payload is refused by the function"
        if self.payload is not None:
            return next(_differences(self.payload, job.payload, "payload"), None)
        return None

    def _late(self, job: Job) -> datetime | timedelta | None:
        """Return when the job is due, in the words of what is wanted, unless that is near enough."""
        if isinstance(self.run_after, datetime):
            return None if abs(job.run_after - self.run_after) <= self.tolerance else job.run_after
        waits: timedelta = job.run_after - job.created_at
        return None if abs(waits - (self.run_after or timedelta(0))) <= self.tolerance else waits


def _differences(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Yield where what is stored lacks what is wanted; objects may have more than that, lists may not."""
    if isinstance(wanted, Mapping) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from _differences(value, found.get(key, _MISSING), f"{path}[{key!r}]")
    elif found is _MISSING:
        yield f"{path} is missing"
    # As it is first: mock.ANY and pytest.approx() are equal to much, and cannot be stored.
    elif wanted != found and _as_stored(wanted) != found:
        yield f"{path} is {_short(found)}, not {_short(wanted)}"


def _as_stored(value: Any) -> Any:
    """Return what the payload's encoder makes of a value: a list of a tuple, text of a UUID."""
    try:
        return json.loads(encode_payload({"": value}, max_bytes=get_settings().PAYLOAD_MAX_BYTES).text)[""]
    except (PayloadError, TypeError):
        return _MISSING


def _all_jobs() -> list[Job]:
    return list(Job.objects.using(Job.objects.write_db).order_by("pk"))


def _told(wanted: _Wanted, jobs: list[Job], found: list[Job], count: int | None) -> Iterator[str]:
    if count is None:
        yield f"no job was enqueued: {wanted}"
    else:
        yield f"{len(found)} {'job was' if len(found) == 1 else 'jobs were'} enqueued, not {count}: {wanted}"
    # Those of the type first: it is there that one looks for the difference.
    jobs = sorted(jobs, key=lambda job: (job.job_type != wanted.job_type, job.pk))
    yield "enqueued are:" if jobs else "no job at all is there"
    yield from (f"  {_line(wanted, job)}" for job in jobs[:_SHOWN])
    if len(jobs) > _SHOWN:
        yield f"  and {len(jobs) - _SHOWN} more"
    if not any(job.job_type == wanted.job_type for job in jobs) and wanted.job_type not in registry:
        yield f"no handler is registered for {wanted.job_type!r}"
    if hooks := _waiting_hooks():
        yield (
            f"{hooks} on_commit hook(s) of this transaction have not run; do they enqueue? "
            "In a TestCase they run within captureOnCommitCallbacks(execute=True)"
        )


def _line(wanted: _Wanted, job: Job) -> str:
    parts = [f"#{job.pk} {job.job_type}", f"queue={job.queue}", status_name(job.status)]
    if job.run_after > job.created_at:
        parts.append(f"run_after={_when(job.run_after - job.created_at)}")
    misfit = wanted.misfit(job)
    why = f"  <- {misfit}" if misfit is not None and job.job_type == wanted.job_type else ""
    return f"{' '.join(parts)} payload={_short(job.payload)}{why}"


def _waiting_hooks() -> int:
    connection = connections[Job.objects.write_db]
    return sum(not isinstance(hook, Wake) for _, hook, *_ in connection.run_on_commit)


def _when(value: datetime | timedelta) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S%z}" if isinstance(value, datetime) else f"{value.total_seconds():+g} s"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
