"""The SQL of jobqueue: one file a statement, each pasteable into psql, each with one constant here.

A statement's header names its parameters, its rows, its locks and the index it relies on. Statuses
are literals: a parameter would lose the partial index under a generic plan (docs/decisions.md).
"""

from importlib.resources import files


def _load(name: str) -> str:
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


BLOCKED_REDRIVES = _load("blocked_redrives")
CANCEL_JOBS = _load("cancel_jobs")
CANCEL_REQUESTS = _load("cancel_requests")
CLAIM_JOBS = _load("claim_jobs")
COMPLETE_JOB = _load("complete_job")
COPY_JOBS = _load("copy_jobs")
COUNT_JOBS = _load("count_jobs")
DISCARD_JOBS = _load("discard_jobs")
ENQUEUE_DUE_JOB = _load("enqueue_due_job")
FENCE_STATE = _load("fence_state")
FIRST_DUE = _load("first_due")
FIRST_EXPIRED = _load("first_expired")
FIRST_PENDING = _load("first_pending")
FOLD_COSTS = _load("fold_costs")
FOLD_STATS = _load("fold_stats")
INSERT_DUE_JOB = _load("insert_due_job")
INSERT_JOB = _load("insert_job")
INSERT_JOBS = _load("insert_jobs")
NEXT_DUE = _load("next_due")
OLDEST_PENDING = _load("oldest_pending")
PENDING_QUEUES = _load("pending_queues")
PROMOTE_JOBS = _load("promote_jobs")
PRUNE_JOBS = _load("prune_jobs")
REAP_JOBS = _load("reap_jobs")
REDRIVE_JOBS = _load("redrive_jobs")
RELEASE_JOBS = _load("release_jobs")
RELEASE_STRAYS = _load("release_strays")
RELEASE_STUCK_JOBS = _load("release_stuck_jobs")
REMOVE_WORKERS = _load("remove_workers")
RENEW_LEASES = _load("renew_leases")
RESERVE_IDS = _load("reserve_ids")
SETTLE_DONE = _load("settle_done")
SETTLE_ENDED = _load("settle_ended")
WAKE_QUEUE = _load("wake_queue")
WAKE_QUEUES = _load("wake_queues")
WORKER_BEAT = _load("worker_beat")
WORKER_LEAVE = _load("worker_leave")
WRITE_PROGRESS = _load("write_progress")
YOUNGEST_BEAT = _load("youngest_beat")
