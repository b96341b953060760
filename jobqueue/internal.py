"""The package's own jobs: the queue that every worker keeps a slot for, and how their types are known."""

from __future__ import annotations

from typing import Final

#: Notices, alerts, webhooks and mail. No ``*`` stands for it: see docs/worker.md.
INTERNAL_QUEUE: Final = "jobqueue"

#: What the names of the package's own job types begin with.
INTERNAL_PREFIX: Final = "jobqueue."


def is_internal(job_type: str) -> bool:
    """Tell whether a job type is one of the package's own."""
    return job_type.startswith(INTERNAL_PREFIX)
