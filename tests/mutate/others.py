"""The guards of enqueue, wake-ups, folding and the workers' rows."""

from .guard import Guard
from .words import NEVER_INLINED

BATCHES = "storage/test_batches.py"
DEDUPE = "storage/test_dedupe.py"
WAKING = "storage/test_waking.py"
FOLDING = "storage/test_folding.py"
GUARD_RACES = "races/test_guards.py"
PROCEDURE = "jobqueue/migrations/0012_enqueue_in_microseconds.py"
KEY_HELD = "{{ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING}}"


def of_folding(statement: str) -> list[Guard]:
    """Return the guards that the folding of statistics and of costs have in common."""
    return [
        Guard(
            statement,
            "span",
            "{{AND span_seconds = %(from_span)s::smallint}}",
            "storage/test_batches.py::test_young_rows_and_those_of_another_span_are_left_as_they_are",
        ),
        Guard(
            statement,
            "longest span",
            "WHERE {{span_seconds < 900 AND}}",
            "storage/test_batches.py::test_quarter_hours_are_not_folded_further_whoever_asks",
        ),
        Guard(
            statement,
            "age",
            "{{AND at < statement_timestamp() - %(age)s::interval}}",
            "storage/test_batches.py::test_young_rows_and_those_of_another_span_are_left_as_they_are",
        ),
        Guard(
            statement, "order", "{{ORDER BY at, id}}", "storage/test_batches.py::test_folding_takes_the_oldest_first"
        ),
        Guard(statement, "take", "{{LIMIT %(take)s}}", "storage/test_batches.py::test_folding_takes_the_oldest_first"),
        Guard(statement, "skip locked", "UPDATE {{SKIP LOCKED}}", GUARD_RACES),
        Guard(statement, "lock", "{{FOR UPDATE SKIP LOCKED}}", GUARD_RACES),
        Guard(statement, "fence", "{{MATERIALIZED}}", GUARD_RACES, behind="lock", why=NEVER_INLINED),
    ]


GUARDS = [
    Guard("insert_due_job", "key", KEY_HELD, "storage/test_dedupe.py::test_an_active_job_holds_its_key"),
    Guard("insert_job", "key", KEY_HELD, "storage/test_dedupe.py::test_a_job_for_later_asks_for_the_key_too"),
    Guard("insert_job", "later", "WHEN {{due.at > statement_timestamp()~~false}}", "storage/test_enqueue.py"),
    Guard(
        "insert_jobs",
        "key",
        KEY_HELD,
        "storage/test_enqueue_many.py::test_of_several_items_with_one_key_the_first_wins",
    ),
    Guard(
        "insert_jobs",
        "key order",
        '{{ORDER BY dedupe_key COLLATE "C", id}}',
        "races/test_deadlocks.py::test_a_bulk_enqueue_takes_keys_in_one_order_whatever_the_database_sorts_by",
    ),
    *of_folding("fold_stats"),
    Guard("fold_stats", "bucket order", "{{ORDER BY bucket, queue_name, type_name, outcome}}", GUARD_RACES),
    Guard(
        "fold_stats",
        "existing bucket",
        "{{ON CONFLICT (at, span_seconds, queue, job_type, outcome) WHERE span_seconds > 0 DO UPDATE SET jobs = "
        "stat.jobs + EXCLUDED.jobs, dead = stat.dead + EXCLUDED.dead, wait_seconds = stat.wait_seconds + "
        "EXCLUDED.wait_seconds, run_seconds = stat.run_seconds + EXCLUDED.run_seconds, cpu_seconds = "
        "stat.cpu_seconds + EXCLUDED.cpu_seconds, peak_memory_bytes = greatest(stat.peak_memory_bytes, "
        "EXCLUDED.peak_memory_bytes), wait_counts = NULLIF(ARRAY(SELECT COALESCE(had, 0) + COALESCE(more, 0) FROM "
        "unnest(stat.wait_counts, EXCLUDED.wait_counts) WITH ORDINALITY AS pair (had, more, place) ORDER BY place), "
        "'{}'), run_counts = NULLIF(ARRAY(SELECT COALESCE(had, 0) + COALESCE(more, 0) FROM unnest(stat.run_counts, "
        "EXCLUDED.run_counts) WITH ORDINALITY AS pair (had, more, place) ORDER BY place), '{}')}}",
        "storage/test_folding.py::test_late_rows_are_added_to_the_quarter_hour_that_exists",
    ),
    *of_folding("fold_costs"),
    Guard(
        "fold_costs",
        "bucket order",
        "{{ORDER BY bucket, queue_name, type_name, owner_name, component, unit}}",
        GUARD_RACES,
    ),
    Guard(
        "fold_costs",
        "existing bucket",
        "{{ON CONFLICT (at, span_seconds, queue, job_type, owner, component, unit) WHERE span_seconds > 0 DO "
        "UPDATE SET amount = cost.amount + EXCLUDED.amount}}",
        "storage/test_folding.py::test_costs_fold_exactly_by_owner_component_and_unit",
    ),
    *of_folding("fold_counters"),
    Guard("fold_counters", "bucket order", "{{ORDER BY bucket, counter_name, counter_labels}}", GUARD_RACES),
    Guard(
        "fold_counters",
        "existing bucket",
        "{{ON CONFLICT (at, span_seconds, name, labels) WHERE span_seconds > 0 DO UPDATE SET amount = "
        "counter.amount + EXCLUDED.amount}}",
        "storage/test_folding.py::test_counters_fold_by_name_and_labels",
    ),
    Guard(
        "remove_workers",
        "age",
        "{{WHERE heartbeat_at < statement_timestamp() - %(age)s::interval}}",
        "storage/test_workers.py::test_workers_not_heard_of_for_a_while_are_removed",
    ),
    Guard(
        "remove_workers",
        "skip locked",
        "UPDATE {{SKIP LOCKED}}",
        "races/test_guards.py::test_a_worker_row_that_is_locked_is_left_for_the_next_time",
    ),
    Guard(
        "remove_workers",
        "lock",
        "{{FOR UPDATE SKIP LOCKED}}",
        "races/test_guards.py::test_a_worker_row_that_is_locked_is_left_for_the_next_time",
    ),
    Guard(
        "worker_leave",
        "worker",
        "{{WHERE worker_id = %(worker_id)s}}",
        "storage/test_workers.py::test_a_worker_that_leaves_takes_its_row_along",
    ),
    Guard(
        "remember_release",
        "once",
        "{{ON CONFLICT (version) DO NOTHING}}",
        "storage/test_workers.py::test_a_release_is_written_down_once_with_the_time_of_its_first_worker",
    ),
    Guard(
        "worker_beat",
        "known worker",
        "{{ON CONFLICT (worker_id) DO UPDATE SET heartbeat_at~~ON CONFLICT (worker_id) DO UPDATE SET version}}",
        "storage/test_workers.py::test_later_beats_move_the_heartbeat_and_keep_the_start",
    ),
    Guard(
        "worker_beat",
        "batch",
        "{{WHERE NOT EXISTS (SELECT FROM known WHERE known.counts_batch >= %(batch)s::bigint)}}",
        "storage/test_workers.py::test_a_batch_of_counts_is_written_once",
    ),
    Guard(
        "worker_beat",
        "last batch",
        "counts_batch = {{greatest(EXCLUDED.counts_batch, jobqueue_worker.counts_batch)~~EXCLUDED.counts_batch}}",
        "storage/test_workers.py::test_a_batch_of_counts_is_written_once",
    ),
    Guard(
        "worker_beat",
        "worker",
        "FROM jobqueue_worker {{WHERE worker_id = %(worker_id)s::text}} FOR NO KEY UPDATE",
        "storage/test_workers.py::test_a_batch_of_another_worker_has_numbers_of_its_own",
    ),
    Guard("worker_beat", "lock", "WHERE worker_id = %(worker_id)s::text {{FOR NO KEY UPDATE}}", GUARD_RACES),
    Guard("worker_beat", "fence", "{{MATERIALIZED}}", GUARD_RACES, behind="lock", why=NEVER_INLINED),
    Guard(
        "worker_beat",
        "number before change",
        "FROM {{(SELECT count(*) FROM known)~~(SELECT 1)}} AS before",
        "storage/test_workers.py::test_a_batch_of_counts_is_written_once",
    ),
    Guard("wake_queue", "idle", "WHERE {{idle_since IS NOT NULL AND}} queues", WAKING),
    Guard("wake_queue", "queue", "{{AND queues && ARRAY[%(queue)s, '*']}}", WAKING),
    Guard("wake_queue", "alive", "{{AND heartbeat_at > statement_timestamp() - interval '1 minute'}}", WAKING),
    Guard(
        "wake_queues",
        "idle",
        "WHERE {{worker.idle_since IS NOT NULL AND}}",
        "storage/test_waking.py::test_only_an_idle_worker_of_that_queue_is_worth_a_notification",
    ),
    Guard(
        "wake_queues",
        "queue",
        "{{AND worker.queues && ARRAY[queue, '*']}}",
        "storage/test_waking.py::test_only_an_idle_worker_of_that_queue_is_worth_a_notification",
    ),
    Guard("wake_queues", "alive", "{{AND worker.heartbeat_at > statement_timestamp() - interval '1 minute'}}", WAKING),
    Guard(
        "take_turn",
        "nobody at it",
        "FROM turn {{WHERE turn.is_ours}}",
        "ops/test_alerts_together.py::test_while_one_evaluates_another_steps_aside_without_waiting",
    ),
    Guard(
        "take_turn",
        "not of late",
        "{{WHERE tick.at <= statement_timestamp() - %(every)s::interval}}",
        "ops/test_alerts_together.py::test_of_two_workers_one_evaluates_and_the_other_finds_it_done",
    ),
    Guard(PROCEDURE, "key", KEY_HELD, "storage/test_waking.py::test_a_held_key_wakes_nobody"),
    Guard(PROCEDURE, "new only", "IF {{new_id IS NOT NULL~~true}} THEN", WAKING),
    Guard(PROCEDURE, "commit first", "{{COMMIT;}}", "storage/test_procedure.py"),
    Guard(PROCEDURE, "idle", "WHERE {{idle_since IS NOT NULL AND}} queues", WAKING),
    Guard(PROCEDURE, "queue", "{{AND queues && ARRAY[new_queue, '*']}}", WAKING),
    Guard(PROCEDURE, "alive", "{{AND heartbeat_at > statement_timestamp() - interval '1 minute'}}", WAKING),
    Guard(
        PROCEDURE,
        "failed hint",
        "{{EXCEPTION WHEN OTHERS OR query_canceled THEN RAISE LOG 'jobqueue: wake-up not sent: %', SQLERRM;}}",
        "storage/test_procedure.py",
    ),
    Guard(
        "jobqueue/managers/sessions.py",
        "isolation",
        "BEGIN {{ISOLATION LEVEL READ COMMITTED}} READ WRITE",
        "storage/test_sessions.py",
    ),
    Guard("jobqueue/managers/sessions.py", "read write", "READ COMMITTED {{READ WRITE}}", "storage/test_sessions.py"),
]
