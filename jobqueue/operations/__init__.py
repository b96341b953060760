"""The only door through which a person changes the state of jobs and queues: retry, discard, cancel, release, pause.

Admin, commands and HTTP views call these functions. Each checks the actor's permission, takes ids or a QuerySet of any
size, and works through it in ascending ids, a batch of 1,000 a transaction: what is done stays done when the rest is
interrupted, and the audit row (models.Action) of a batch is committed with it or not at all. A QuerySet is bounded by
the newest id at the start and every id is met once: jobs that die again as fast as they are retried are not
met again. Within a caller's transaction all of it is that transaction's, and nothing is kept if it rolls back.
"""

from .acting import PERMISSIONS, REASON_CHARACTERS, Report, Targets, User, check_permission, name_of
from .alerts import change_alert, check_alert
from .jobs import cancel, default_spread, discard, release, retry
from .queues import pause_queue, resume_queue
from .repairing import Seen, check_payload, clone, edit_and_retry, retry_at, unmask

__all__ = [
    "PERMISSIONS",
    "REASON_CHARACTERS",
    "Report",
    "Seen",
    "Targets",
    "User",
    "cancel",
    "change_alert",
    "check_alert",
    "check_payload",
    "check_permission",
    "clone",
    "default_spread",
    "discard",
    "edit_and_retry",
    "name_of",
    "pause_queue",
    "release",
    "resume_queue",
    "retry",
    "retry_at",
    "unmask",
]
