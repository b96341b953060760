"""Signals that tell of jobs and workers; receivers run in the worker, after the verdict is stored.

Every signal of a job has the job type (a str) as its ``sender`` and the arguments ``job_id``, ``job_type``,
``queue`` and ``attempt``; what it has beyond these is named below.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal


class JobSignal(Signal):
    """A signal whose failing receivers the worker logs, once and with the job's id; Django would log them, too."""

    def _log_robust_failure(self, receiver: Any, err: Exception) -> None:
        """Leave it to the worker."""


#: The handler is about to be called.
job_started = JobSignal()

#: The job is DONE. ``result``: what the handler returned.
job_done = JobSignal()

#: The attempt did not end well and the job will be tried again.
#: ``outcome``, ``error_class``, ``error_text``, ``delay``.
job_retrying = JobSignal()

#: The job is DEAD. ``outcome``, ``error_class``, ``error_text``.
job_dead = JobSignal()

#: The job is CANCELLED, on request or by Discard. ``outcome``, ``reason``.
job_cancelled = JobSignal()

#: A worker has registered. ``worker_id``; sender is None.
worker_started = Signal()

#: A worker is alive, about every ten seconds. ``worker_id``; sender is None. Sent in one of its children, so that
#: receivers may use the project's code and call ``jobqueue.gauge()`` and ``jobqueue.count()``; each call of all
#: receivers has half a minute. See docs/gauges.md.
worker_heartbeat = JobSignal()

#: A worker has given back what it held and ends. ``worker_id``, ``exit_code``; sender is None.
worker_stopped = Signal()
