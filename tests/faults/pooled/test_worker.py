"""C68: tests of the worker, run again with everything through PgBouncer. They are the same functions.

Left out are those that end, count or watch the server's connections by the name of the worker, which a pooled one
bears only while it is lent, those that write the columns of a lease by hand, and those that use no worker.
"""

from tests.worker.test_cancelling import test_jobs_cancelled_while_a_crowd_runs_are_done_or_cancelled
from tests.worker.test_connections import (
    test_a_finish_that_fails_is_written_again,
    test_a_locked_row_holds_up_no_other_job,
)
from tests.worker.test_coroutines import test_a_coroutine_is_awaited_and_may_use_the_orm
from tests.worker.test_outcomes import (
    test_a_job_that_kills_its_process_starts_as_often_as_it_may_and_then_is_dead,
    test_results_of_any_size_travel_and_too_large_ones_fail,
    test_retry_is_charged_and_never_comes_early,
)
from tests.worker.test_receivers import test_receivers_see_the_state_that_was_stored
from tests.worker.test_reports import (
    test_a_dead_letter_is_told_by_log_mail_and_function,
    test_costs_of_every_attempt_count,
)
from tests.worker.test_stopping import test_a_stop_waits_for_what_runs_and_gives_back_what_does_not
from tests.worker.test_transactions import (
    test_a_connection_left_in_a_state_hurts_nobody,
    test_a_job_finished_in_its_own_transaction_has_its_effects_once,
)

__all__ = [
    "test_a_connection_left_in_a_state_hurts_nobody",
    "test_a_coroutine_is_awaited_and_may_use_the_orm",
    "test_a_dead_letter_is_told_by_log_mail_and_function",
    "test_a_finish_that_fails_is_written_again",
    "test_a_job_finished_in_its_own_transaction_has_its_effects_once",
    "test_a_job_that_kills_its_process_starts_as_often_as_it_may_and_then_is_dead",
    "test_a_locked_row_holds_up_no_other_job",
    "test_a_stop_waits_for_what_runs_and_gives_back_what_does_not",
    "test_costs_of_every_attempt_count",
    "test_jobs_cancelled_while_a_crowd_runs_are_done_or_cancelled",
    "test_receivers_see_the_state_that_was_stored",
    "test_results_of_any_size_travel_and_too_large_ones_fail",
    "test_retry_is_charged_and_never_comes_early",
]
