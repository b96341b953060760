"""Put the running job's id into every log line: a filter for any formatter, and a formatter for JSON lines.

The job id is the correlation id. In Django's LOGGING::

    "filters": {"job": {"()": "jobqueue.logs.JobFilter"}},
    "formatters": {"json": {"()": "jobqueue.logs.JSONFormatter"}},
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple


class CurrentJob(NamedTuple):
    """Which run of which job the code works for."""

    job_id: int
    job_type: str
    attempt: int
    lease_epoch: int


#: Set around each handler call; threads and tasks that the handler starts with a copied context keep it.
current_job: ContextVar[CurrentJob | None] = ContextVar("jobqueue_current_job", default=None)

QUIET_SECONDS: Final = 10.0
LONGEST_QUIET_SECONDS: Final = 300.0

JOB_FIELDS: Final = ("job_id", "job_type", "attempt", "lease_epoch")

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
COLOURS: Final = {
    logging.DEBUG: "\x1b[36m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}

_PLAIN: Final = frozenset({str, int, bool})
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JobFilter(logging.Filter):
    """Add job_id, job_type, attempt and lease_epoch to each record: None outside of a job. It drops nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields, but leave those that the caller gave by ``extra``."""
        job = current_job.get()
        for name in JOB_FIELDS:
            if name not in record.__dict__:
                setattr(record, name, getattr(job, name, None))
        return True


class JSONFormatter(logging.Formatter):
    """Write one JSON object a line: time (UTC), level, logger, message, the job's fields, ``extra`` and the error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON, whatever it carries."""
        fields = self._fields(record)
        try:
            return json.dumps(fields, default=_safe_repr, skipkeys=True, allow_nan=False)
        except (ValueError, RecursionError):  # not a number, or within itself
            plain = {name: value if type(value) in _PLAIN else _safe_repr(value) for name, value in fields.items()}
            return json.dumps(plain)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (job := current_job.get()) is not None:
            line.update({name: getattr(job, name) for name in JOB_FIELDS})
        line.update(
            {name: value for name, value in record.__dict__.items() if name not in _STANDARD and value is not None}
        )
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return line


class TerminalFormatter(logging.Formatter):
    """Write short lines for a person at a terminal: time, level in colour, what speaks, the message, the job's id."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, and what is below it: the traceback of an error."""
        text = super().format(record)
        line, _, below = text.partition("\n")
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = f"{COLOURS.get(record.levelno, '')}{record.levelname:<8}{PLAIN}"
        job = current_job.get()
        about = f" {DIM}job_id={job.job_id}{PLAIN}" if job is not None and "job_id=" not in line else ""
        name = record.name.removeprefix("jobqueue.")
        return f"{DIM}{at}{PLAIN} {level} {DIM}{name:<11}{PLAIN} {line}{about}" + (f"\n{below}" if below else "")


def wants_colour(stream: Any) -> bool:
    """Tell whether a stream is a terminal that shows colours, and nobody has asked for none (NO_COLOR, TERM=dumb)."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return bool(is_terminal) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Quietly:
    """Log an expected fault that lasts: at once, then after 10 s, 20 s and so on, with a count of what was left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._quiet, self._left_out = QUIET_SECONDS, 0
        self._told_at = self._failed_at = float("-inf")

    def warning(self, message: str, *arguments: Any) -> None:
        """Log a warning, or count it."""
        now = time.monotonic()
        if now - self._failed_at > 2 * QUIET_SECONDS:  # all was well meanwhile
            self._quiet, self._told_at = QUIET_SECONDS, float("-inf")
        self._failed_at = now
        if now - self._told_at < self._quiet:
            self._left_out += 1
            return
        if self._told_at != float("-inf"):
            self._quiet = min(2 * self._quiet, LONGEST_QUIET_SECONDS)
        self._logger.warning("%s (left out: %s)", message % arguments, self._left_out)
        self._told_at, self._left_out = now, 0


def speak_by_default(*, verbose: bool = False) -> None:
    """Have the app's own lines written to standard error where the project configures no logging for them.

    For the worker's processes only: one that works without a word leaves its operator guessing. In colour on a
    terminal; `verbose` tells of each job.
    """
    ours = logging.getLogger("jobqueue")
    if not ours.hasHandlers():
        handler = logging.StreamHandler()
        plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
        handler.setFormatter(TerminalFormatter() if wants_colour(handler.stream) else plain)
        ours.addHandler(handler)
        if ours.level == logging.NOTSET:
            ours.setLevel(logging.DEBUG if verbose else logging.INFO)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a line must be written whatever an object's repr does
        return f"<{type(value).__name__}>"
