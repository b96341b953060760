"""Job.objects: enqueue, and every change of state, each one fenced SQL statement.

The verbs (leasing, settling, moving, arriving) take the connection to run on; the manager runs them on Django's
connection of the jobs' alias, the worker on connections of its own.
"""

from .arriving import JobSpec
from .jobs import JobManager
from .querysets import JobQuerySet
from .rows import ClaimedJob, CostLine, Done, Ending, Fence, Moved, Release, Renewal, Span

__all__ = [
    "ClaimedJob",
    "CostLine",
    "Done",
    "Ending",
    "Fence",
    "JobManager",
    "JobQuerySet",
    "JobSpec",
    "Moved",
    "Release",
    "Renewal",
    "Span",
]
