"""C167: tests of the worker, run again with each kind of broken hints. They are the same functions.

Left out are those whose very matter is how soon a hint is followed (tests/worker/test_waking.py, a cancel within a
second), which test_hints measures, and those that use no worker.
"""

from tests.worker.test_cancelling import test_a_cancelled_job_is_not_brought_back_by_its_own_failure
from tests.worker.test_dispatching import (
    test_a_new_queue_is_found_by_a_worker_of_all,
    test_a_reserved_slot_waits_for_its_queue,
)
from tests.worker.test_outcomes import (
    test_a_job_runs_and_keeps_its_result,
    test_a_job_that_fails_is_tried_again_until_it_goes_well,
)
from tests.worker.test_stopping import test_a_stop_waits_for_what_runs_and_gives_back_what_does_not
from tests.worker.test_transactions import test_a_job_starts_after_its_commit_and_never_after_a_rollback

__all__ = [
    "test_a_cancelled_job_is_not_brought_back_by_its_own_failure",
    "test_a_job_runs_and_keeps_its_result",
    "test_a_job_starts_after_its_commit_and_never_after_a_rollback",
    "test_a_job_that_fails_is_tried_again_until_it_goes_well",
    "test_a_new_queue_is_found_by_a_worker_of_all",
    "test_a_reserved_slot_waits_for_its_queue",
    "test_a_stop_waits_for_what_runs_and_gives_back_what_does_not",
]
