"""What one worker was asked to do: the command's options with the settings behind them."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import timedelta

from jobqueue.conf import JobQueueSettings, problems
from jobqueue.exceptions import ConfigurationError
from jobqueue.rules import RULES

from .queues import QueuePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of one boot. `worker_id` is unique per boot: a restart must not look like its own past."""

    worker_id: str
    name: str
    alias: str
    queues: str = "*"
    job_types: tuple[str, ...] = ()
    processes: int
    threads: int
    lease: timedelta
    poll: timedelta
    shutdown_timeout: timedelta
    drain: bool = False
    max_jobs: int | None = None
    max_seconds: float | None = None
    maintenance: bool = True
    metrics_port: int | None = None  # 0: one that the system chooses
    metrics_host: str = "127.0.0.1"

    @classmethod
    def make(cls, settings: JobQueueSettings, *, alias: str, name: str | None = None, **given: object) -> WorkerOptions:
        """Fill what was not given (None) from the settings. Raises ConfigurationError for values that cannot work."""
        name = name or socket.gethostname()
        if not name.isprintable() or not name.strip() or len(name.encode()) > 40:
            msg = f"--name must be 1 to 40 bytes of printable text, not {name!r}"
            raise ConfigurationError(msg)
        defaults: dict[str, object] = {
            "queues": "*",
            "job_types": (),
            "processes": settings.PROCESSES or len(os.sched_getaffinity(0)),
            "threads": settings.THREADS,
            "lease": settings.lease,
            "poll": timedelta(seconds=settings.POLL_SECONDS),
            "shutdown_timeout": timedelta(seconds=settings.SHUTDOWN_TIMEOUT),
        }
        values = defaults | {key: value for key, value in given.items() if value is not None}
        worker_id = f"{name}-{secrets.token_hex(4)}"
        options = cls(worker_id=worker_id, name=name, alias=alias, **values)  # type: ignore[arg-type]
        options.check_numbers()
        options.plan().check_slots(options.processes * options.threads)
        for problem in problems(settings.changed(LEASE_SECONDS=options.lease.total_seconds())):
            if problem.fatal:
                raise ConfigurationError(f"with --lease {options.lease.total_seconds():g}: {problem.text}")
        return options

    def check_numbers(self) -> None:
        """Raise ConfigurationError for a number that the setting of the same meaning could not have either."""
        values = {
            "PROCESSES": ("--processes", self.processes),
            "THREADS": ("--threads", self.threads),
            "POLL_SECONDS": ("--poll", self.poll.total_seconds()),
            "SHUTDOWN_TIMEOUT": ("--shutdown-timeout", self.shutdown_timeout.total_seconds()),
        }
        for setting, (option, value) in values.items():
            try:
                RULES[setting](value)
            except ValueError as error:
                raise ConfigurationError(f"{option} {error}, not {value:g}") from error
        for option, limit, least in (("--max-jobs", self.max_jobs, 1), ("--max-seconds", self.max_seconds, 0)):
            if limit is not None and not limit >= least:  # written so that NaN is refused, too
                raise ConfigurationError(f"{option} must be at least {least}, not {limit}")

    def plan(self) -> QueuePlan:
        """Return the queue plan."""
        return QueuePlan.parse(self.queues)
