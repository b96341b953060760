"""Hostile tasks: whatever one does, it ends, and the worker goes on with the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jobqueue.testing.conformance import api, tasks
from jobqueue.testing.conformance.registry import add_check

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_NEEDS: Final = ("get_result", "drain")
_FAILED: Final = (api.FAILED,)
_EITHER: Final = (api.FAILED, api.SUCCESSFUL)

#: Name of the check, the task, how it may end, the error's class if the contract names one, and the sentence.
HOSTILE: Final[tuple[tuple[str, Any, tuple[Any, ...], str, str], ...]] = (
    ("system_exit_fails", tasks.exits, _FAILED, "", "A task that raises SystemExit has FAILED."),
    (
        "keyboard_interrupt_fails",
        *(tasks.interrupts, _FAILED, "", "A task that raises KeyboardInterrupt has FAILED."),
    ),
    ("a_base_exception_fails", tasks.raises_base, _FAILED, "", "A task that raises no Exception has FAILED."),
    (
        "a_return_value_that_is_no_json_fails",
        *(tasks.returns_object, _FAILED, "TypeError", "A task that returns what is no JSON has FAILED with TypeError."),
    ),
    ("a_nan_returned_ends", tasks.returns_nan, _EITHER, "", "A task that returns NaN has FAILED, or returns it."),
    ("a_nul_returned_ends", tasks.returns_nul, _EITHER, "", "A task that returns NUL has FAILED, or returns it."),
    (
        "an_unpicklable_exception_fails",
        *(tasks.raises_unpicklable, _FAILED, "Unpicklable", "An error that cannot be pickled is recorded."),
    ),
    (
        "a_huge_exception_fails",
        *(tasks.raises_huge, _FAILED, "ValueError", "An error with a message of 5 MB is recorded."),
    ),
    (
        "a_speechless_exception_fails",
        *(tasks.raises_speechless, _FAILED, "Speechless", "An error whose text cannot be made is recorded."),
    ),
    (
        "an_exception_with_nul_fails",
        *(tasks.raises_nul, _FAILED, "ValueError", "An error with NUL in its message is recorded."),
    ),
    (
        "an_exception_with_half_a_pair_fails",
        *(tasks.raises_surrogate, _FAILED, "ValueError", "An error whose message is no valid Unicode is recorded."),
    ),
    (
        "closed_connections_do_no_harm",
        *(tasks.closes_connections, (api.SUCCESSFUL,), "", "A task may close the connections to the databases."),
    ),
)


def _checked(task: Any, ends: tuple[Any, ...], error: str) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        mark = bench.mark()
        hostile, innocent = bench.drain(task.enqueue(), tasks.marks.enqueue(mark))
        assert hostile.status in ends, f"ended as {hostile.status}"
        if hostile.status == api.FAILED:
            assert hostile.errors, "no error is told"
            path = hostile.errors[-1].exception_class_path
            assert path.endswith(error), f"the error is told as {path}"
        assert (innocent.status, bench.ran(mark)) == (api.SUCCESSFUL, 1), "the next task did not run"

    return run


for _name, _task, _ends, _error, _sentence in HOSTILE:
    add_check(_name, f"{_sentence} The next one runs.", _checked(_task, _ends, _error), _NEEDS)
