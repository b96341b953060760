"""The guards of the statements that end attempts."""

from .guard import Guard
from .words import BATCHES, FENCES, IN_ORDER, NEVER_INLINED, NO_WAIT, REFUSED, ROW_IS_LOCKED, TRANSITIONS

REAP = "storage/test_reap.py"
WINS = "storage/test_attempts.py::test_a_requested_cancel_wins_over_every_end_but_success"
EPOCH_USED = "storage/test_rows_by_hand.py::test_an_epoch_that_was_used_before_ends_all_the_same"
BY_HAND = "storage/test_rows_by_hand.py::test_a_row_that_cannot_be_reaped_holds_up_no_other"
CHARGED_ONCE = "storage/test_open_costs.py::test_what_was_charged_once_is_not_charged_again"
SETTLING = "storage/test_settling.py"


def of_batch(statement: str) -> list[Guard]:
    """Return the guards that both settles of batches have."""
    return [
        Guard(statement, "status", "= given.id AND {{job.status + 0 = 2 /* RUNNING */ AND}} job.worker_id", REFUSED),
        Guard(statement, "worker", "{{AND job.worker_id = %(worker_id)s}}", FENCES),
        Guard(statement, "epoch", "{{AND job.lease_epoch = given.lease_epoch}}", FENCES),
        Guard(statement, "lock order", "{{ORDER BY given.id}}", IN_ORDER),
        Guard(statement, "no key", "FOR {{NO KEY }}UPDATE", NO_WAIT),
        Guard(statement, "lock", "{{FOR NO KEY UPDATE}}", IN_ORDER),
        Guard(statement, "fence", "{{MATERIALIZED}}", IN_ORDER, behind="lock", why=NEVER_INLINED),
        Guard(
            statement,
            "status again",
            "WHERE job.id = held.id {{AND job.status + 0 = 2 /* RUNNING */}}",
            FENCES,
            behind="status",
            why=ROW_IS_LOCKED,
        ),
    ]


GUARDS = [
    *of_batch("settle_done"),
    *of_batch("settle_ended"),
    Guard("settle_ended", "cancel spared", "{{AND job.cancel_requested_at IS NULL}} AS spared", WINS),
    Guard("settle_ended", "cancel", "CASE WHEN {{job.cancel_requested_at IS NOT NULL OR}} given.step", WINS),
    Guard(
        "settle_ended",
        "budget",
        "given.step = 'interrupt' {{AND job.interruptions < %(budget)s}} AND",
        "storage/test_attempts.py::test_interruptions_above_the_budget_are_charged",
    ),
    Guard(
        "settle_ended",
        "budget status",
        "WHEN given.step = 'interrupt' {{AND job.interruptions < %(budget)s}} THEN",
        "storage/test_attempts.py::test_interruptions_above_the_budget_are_charged",
    ),
    Guard(
        "settle_ended",
        "attempts",
        "{{WHEN job.attempts >= job.max_attempts THEN 4 /* DEAD */}}",
        "storage/test_transitions.py::test_fail_takes_a_running_job_without_attempts_left_to_dead",
    ),
    Guard("settle_ended", "attempt twice", "{{ON CONFLICT (job_id, lease_epoch) DO NOTHING}}", EPOCH_USED),
    Guard(
        "settle_ended",
        "no notice of notices",
        "{{AND job_type <> 'jobqueue.notify'}}",
        "storage/test_settling.py::test_nobody_is_notified_of",
    ),
    Guard(
        "settle_ended",
        "notices",
        "WHERE {{%(notices)s AND}} job_type",
        "storage/test_settling.py::test_without_notifiers_there_is_no_notice",
    ),
    Guard("settle_ended", "notice of dead", "({{status = 4 /* DEAD */ OR}} (limit_hit", SETTLING),
    Guard(
        "settle_ended",
        "no notice of cancels",
        "(limit_hit {{AND status <> 7}})",
        "storage/test_settling.py::test_nobody_is_notified_of",
    ),
    Guard(
        "complete_job",
        "status",
        "{{AND status + 0 = 2 /* RUNNING */}}",
        "storage/test_fences.py::test_a_job_that_is_not_running_is_not_written",
    ),
    Guard(
        "complete_job",
        "worker",
        "{{AND worker_id = %(worker_id)s}}",
        "storage/test_fences.py::test_a_stale_fence_changes_nothing",
    ),
    Guard(
        "complete_job",
        "epoch",
        "{{AND lease_epoch = %(lease_epoch)s}}",
        "storage/test_fences.py::test_a_stale_fence_changes_nothing",
    ),
    Guard("reap_jobs", "status", "WHERE {{status = 2 /* RUNNING */ AND}} COALESCE(lease_until", BATCHES),
    Guard(
        "reap_jobs",
        "expiry",
        "WHERE status = 2 /* RUNNING */ {{AND COALESCE(lease_until, '-infinity') < statement_timestamp()}}",
        "storage/test_reap.py::test_leases_that_run_do_not_use_up_the_limit",
    ),
    Guard("reap_jobs", "stepped over", "{{AND NOT (id = ANY (%(skip)s::bigint[]))}}", BY_HAND),
    Guard("reap_jobs", "notice of dead", "{{AND status = 4 /* DEAD */}} AND job_type", REAP),
    Guard("reap_jobs", "order", "{{ORDER BY id}}", BATCHES),
    Guard("reap_jobs", "take", "{{LIMIT %(take)s}}", "storage/test_reap.py::test_reap_takes_a_batch_in_id_order"),
    Guard("reap_jobs", "no key", "FOR {{NO KEY }}UPDATE", NO_WAIT),
    Guard(
        "reap_jobs",
        "skip locked",
        "UPDATE {{SKIP LOCKED}}",
        "races/test_lock_step.py::test_reap_steps_over_a_job_that_is_being_completed",
    ),
    Guard(
        "reap_jobs",
        "lock",
        "{{FOR NO KEY UPDATE SKIP LOCKED}}",
        "races/test_lock_step.py::test_reap_steps_over_a_job_that_is_being_completed",
    ),
    Guard(
        "reap_jobs",
        "fence",
        "{{MATERIALIZED}}",
        "races/test_lock_step.py::test_reap_steps_over_a_job_that_is_being_completed",
        behind="lock",
        why=NEVER_INLINED,
    ),
    Guard(
        "reap_jobs",
        "status again",
        "{{AND job.status + 0 = 2 /* RUNNING */}}",
        TRANSITIONS,
        behind="status",
        why=ROW_IS_LOCKED,
    ),
    Guard(
        "reap_jobs",
        "epoch again",
        "{{AND job.lease_epoch = expired.lease_epoch}}",
        "races/test_lock_step.py::test_reap_steps_over_a_job_that_is_being_completed",
        behind="lock",
        why=ROW_IS_LOCKED,
    ),
    Guard(
        "reap_jobs",
        "expiry again",
        "{{AND COALESCE(job.lease_until, '-infinity') < statement_timestamp()}}",
        "storage/test_reap.py::test_a_lease_that_runs_is_left_alone",
        behind="expiry",
        why=ROW_IS_LOCKED,
    ),
    Guard(
        "reap_jobs",
        "cancel",
        "CASE WHEN {{cancel_requested_at IS NOT NULL~~false}}",
        "storage/test_attempts.py::test_an_expired_job_with_a_request_is_cancelled",
    ),
    Guard(
        "reap_jobs",
        "attempts",
        "WHEN {{attempts >= max_attempts~~false}} THEN 4",
        "storage/test_reap.py::test_reaped_jobs_are_counted_with_their_dead_letters",
    ),
    Guard("reap_jobs", "attempt twice", "{{ON CONFLICT (job_id, lease_epoch) DO NOTHING}}", EPOCH_USED),
    Guard("reap_jobs", "charged once", "{{open_costs = NULL,}}", CHARGED_ONCE),
    Guard(
        "reap_jobs",
        "forget worker",
        "{{worker_id = NULL,}}",
        "storage/test_fences.py::test_a_repeated_settle_after_a_reap_is_refused",
    ),
    Guard(
        "reap_jobs",
        "notices",
        "WHERE {{%(notices)s AND}} status",
        "storage/test_reap.py::test_nobody_is_notified_of_a_notice_or_without_notifiers",
    ),
    Guard(
        "reap_jobs",
        "no notice of notices",
        "{{AND job_type <> 'jobqueue.notify'}}",
        "storage/test_reap.py::test_nobody_is_notified_of_a_notice_or_without_notifiers",
    ),
    Guard(
        "jobqueue/managers/settling.py",
        "accepted: ended",
        "if {{row[1] != Status.RUNNING and}} row[2]",
        "storage/test_fences.py::test_accepted_before_looks_at_worker_and_epoch",
    ),
    Guard(
        "jobqueue/managers/settling.py",
        "accepted: worker",
        "{{and row[2] == worker_id}}",
        "storage/test_fences.py::test_a_repeated_settle_after_a_reap_is_refused",
    ),
    Guard("jobqueue/managers/settling.py", "accepted: epoch", "{{and row[3] == epochs[row[0]]}}", FENCES),
]
