"""Where the log lines of a job are: commands to paste, and a link where the settings know one.

The job's id is the correlation id: see jobqueue.logs. JSON lines have it as "job_id": 7, the package's own texts as
job_id=7.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from django.utils import timezone
from django.utils.translation import gettext as _

from jobqueue.conf import get_settings
from jobqueue.models import Job

#: Clocks of hosts differ, and a line may be written a little later.
MARGIN: Final = timedelta(minutes=1)


class Hint(NamedTuple):
    """A command or query, and where it is to be pasted."""

    label: str
    text: str


class Hints(NamedTuple):
    """What leads to the log lines of a job; `link` is "" where the settings name none."""

    lines: list[Hint]
    link: str
    trace_id: str


def hints(job: Job) -> Hints:
    """Return where the log lines of a job are, from its first start to its last end."""
    since, until = _window(job)
    pattern = f'job_id"?[=:] ?{job.pk}([^0-9]|$)'
    start, end = (f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" for at in (since, until))
    lines = [
        Hint(_("In a file"), f"grep -E '{pattern}' worker.log"),
        Hint(_("In the journal"), f"journalctl --since '{start}' --until '{end}' --output=cat | grep -E '{pattern}'"),
        Hint(_("In Loki, for JSON lines"), f'{{app="worker"}} | json | job_id="{job.pk}"'),
    ]
    trace_id = _trace_id(job.trace_context)
    template = get_settings().LOG_LINK
    told = {
        "job_id": job.pk,
        "job_type": job.job_type,
        "worker_id": job.worker_id or "",
        "trace_id": trace_id,
        "since": since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "until": until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "since_ms": round(since.timestamp() * 1000),
        "until_ms": round(until.timestamp() * 1000),
    }
    return Hints(lines, _filled(template, told) if template else "", trace_id)


def _window(job: Job) -> tuple[datetime, datetime]:
    since = job.first_started_at or job.claimed_at or job.created_at
    until = job.finished_at or timezone.now()
    return since - MARGIN, max(until, since) + MARGIN


def _filled(template: str, told: dict[str, Any]) -> str:
    """Return the address; what a job brings is quoted, so that it cannot lead elsewhere."""
    return template.format_map({name: quote(str(value), safe="") for name, value in told.items()})


def _trace_id(traceparent: str | None) -> str:
    """Return the trace id of a W3C traceparent, "" for none."""
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 and parts[1].isalnum() else ""
