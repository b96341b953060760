"""How large a batch of ends becomes: by number, and by the bytes of their results."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobqueue.managers import ClaimedJob, Done
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.settle import FULL, MOST_BYTES, Settled, Settler
from jobqueue.worker.threads import DatabaseThread

MB = 1024 * 1024


class Thread:
    """A database thread that keeps what it is to do."""

    busy = False

    def __init__(self) -> None:
        self.answers: list[Callable[[Any, Exception | None], None]] = []

    def submit(self, _task: object, then: Callable[[Any, Exception | None], None], *, keep_trying: object) -> None:
        self.busy = True
        self.answers.append(then)


@pytest.mark.parametrize(
    ("size", "sizes"),
    [(4, [2 * FULL, 200]), (MB, [16] * 3 + [2]), (20 * MB, [1] * 3)],
    ids=["small", "a megabyte each", "larger than a batch"],
)
def test_a_batch_holds_so_many_ends_and_no_more_bytes_than_the_server_takes(size: int, sizes: list[int]) -> None:
    thread, count = Thread(), sum(sizes)
    seen: list[int] = []
    verdicts: Any = SimpleNamespace(verdict=lambda held, *_: seen.append(held.job.id), settled=lambda: None)
    settler = Settler(cast(DatabaseThread, thread), HeldJobs(), worker_id="w", verdicts=verdicts)
    result = "x" * size
    for number in range(count):
        job = ClaimedJob(number, 1, "probe.ok", "default", 100, 0, 1, 3, 0, "", 2, "{}", None, None, None, None)
        settler.add(Held(job, boottime() + 60), Done(number, 1, result))

    found = []
    while len(settler):
        before = len(settler)
        settler.pump(nothing_runs=True)
        found.append(before - len(settler))
        thread.busy = False
        thread.answers.pop()(Settled({}, set()), None)

    assert MOST_BYTES == 16 * MB
    assert found == sizes
    assert seen == list(range(count))
