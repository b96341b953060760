"""The guards of pauses and budgets."""

from .guard import Guard
from .words import NEVER_INLINED

PAUSING = "storage/test_pausing.py"
IN_FORCE = f"{PAUSING}::test_resume_tells_whether_there_was_a_pause_and_can_ask_whose"
SERVICE = "ops/test_budget_service.py"
SUMS = "ops/test_budgets.py"
REFUSALS = "storage/test_budget_refusals.py"

GUARDS = [
    Guard(
        "pause_queue",
        "existing row",
        "{{ON CONFLICT (name) DO UPDATE SET paused_at = CASE WHEN queue.resumes_at <= statement_timestamp() THEN "
        "EXCLUDED.paused_at ELSE COALESCE(queue.paused_at, EXCLUDED.paused_at) END, paused_by = EXCLUDED.paused_by, "
        "reason = EXCLUDED.reason, resumes_at = EXCLUDED.resumes_at WHERE NOT %(yields)s::bool OR queue.paused_at IS "
        "NULL OR queue.resumes_at <= statement_timestamp() OR starts_with(queue.paused_by, 'budget:')}}",
        f"{PAUSING}::test_a_second_pause_says_who_and_why_now_and_keeps_since_when",
    ),
    Guard(
        "pause_queue",
        "a person's",
        "resumes_at = EXCLUDED.resumes_at {{WHERE NOT %(yields)s::bool OR queue.paused_at IS NULL OR queue.resumes_at "
        "<= statement_timestamp() OR starts_with(queue.paused_by, 'budget:')}}",
        f"{PAUSING}::test_a_pause_that_yields_never_overwrites_a_persons",
    ),
    Guard(
        "resume_queue", "whose", "{{AND (%(paused_by)s::text IS NULL OR paused_by = %(paused_by)s::text)}}", IN_FORCE
    ),
    Guard(
        "resume_queue",
        "in force",
        "{{AND paused_at IS NOT NULL AND (resumes_at IS NULL OR resumes_at > statement_timestamp())}}",
        IN_FORCE,
    ),
    Guard(
        "resume_due_queues",
        "over",
        "{{WHERE resumes_at <= statement_timestamp()}}",
        f"{SERVICE}::test_pauses_that_are_over_are_cleared_and_wake_who_sleeps",
    ),
    Guard("resume_due_queues", "skip locked", "UPDATE {{SKIP LOCKED}}", f"{SERVICE}::test_clearing_waits_for_nobody"),
    Guard(
        "resume_due_queues",
        "lock",
        "{{FOR NO KEY UPDATE SKIP LOCKED}}",
        f"{SERVICE}::test_clearing_waits_for_nobody",
    ),
    Guard(
        "resume_due_queues",
        "fence",
        "{{MATERIALIZED}}",
        f"{SERVICE}::test_clearing_waits_for_nobody",
        behind="lock",
        why=NEVER_INLINED,
    ),
    Guard(
        "write_budgets",
        "existing row",
        "{{ON CONFLICT (name) DO UPDATE SET window_start = EXCLUDED.window_start, window_end = EXCLUDED.window_end, "
        "unit = EXCLUDED.unit, amount = EXCLUDED.amount, spent = EXCLUDED.spent, level = EXCLUDED.level, refuses = "
        "EXCLUDED.refuses, pauses = EXCLUDED.pauses, updated_at = statement_timestamp()}}",
        f"{SERVICE}::test_it_resumes_when_the_window_moves_on_and_pauses_again_in_the_next",
    ),
    Guard(
        "forget_budgets",
        "other workers",
        "{{AND updated_at < statement_timestamp() - interval '1 minute'}}",
        f"{SERVICE}::test_it_resumes_what_a_budget_paused_that_no_settings_have_any_more",
    ),
    Guard(
        "forget_budgets",
        "own",
        "WHERE {{NOT (name = ANY (%(names)s::text[])) AND}} updated_at",
        f"{SERVICE}::test_only_rows_that_nobody_has_written_for_a_minute_are_forgotten",
    ),
    Guard(
        "budget_sums",
        "from",
        "{{cost.at >= summed.since AND}}",
        f"{SUMS}::test_a_sum_has_what_lies_in_its_window_to_the_microsecond",
    ),
    Guard(
        "budget_sums",
        "until",
        "{{AND cost.at < closes.at}}",
        f"{SUMS}::test_a_sum_has_what_lies_in_its_window_to_the_microsecond",
    ),
    Guard(
        "budget_sums",
        "unit",
        "{{AND cost.unit = given.unit}}",
        f"{SUMS}::test_each_budget_sums_its_own_type_queue_and_unit",
    ),
    Guard(
        "budget_sums",
        "type",
        "{{AND (given.job_type IS NULL OR cost.job_type = given.job_type)}}",
        f"{SUMS}::test_each_budget_sums_its_own_type_queue_and_unit",
    ),
    Guard(
        "budget_sums",
        "queue",
        "{{AND (given.queue IS NULL OR cost.queue = given.queue)}}",
        f"{SUMS}::test_each_budget_sums_its_own_type_queue_and_unit",
    ),
    Guard(
        "spent_budgets",
        "spent",
        "WHERE {{budget.spent >= given.amount AND}} budget.unit",
        f"{REFUSALS}::test_a_budget_that_is_not_spent_in_this_window_refuses_nothing",
    ),
    Guard(
        "spent_budgets",
        "unit",
        "{{AND budget.unit = given.unit}}",
        f"{REFUSALS}::test_a_budget_that_is_not_spent_in_this_window_refuses_nothing",
    ),
    Guard(
        "spent_budgets",
        "window",
        "{{AND budget.window_end > statement_timestamp()}}",
        f"{REFUSALS}::test_a_budget_that_is_not_spent_in_this_window_refuses_nothing",
    ),
]
