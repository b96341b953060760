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


@pytest.mark.parametrize(
    ("mean_seconds", "waits_seconds"),
    [(None, 0.005), (0.00001, 0.005), (0.004, 0.024), (10.0, 0.03)],
    ids=["nothing has run yet", "no-ops", "a few milliseconds", "long ones"],
)
def test_an_end_waits_for_company_as_long_as_a_few_runs_take(
    mean_seconds: float | None, waits_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5 ms for all, jobs of 5 ms filled each settle with two or three."""
    clock = {"now": 100.0}
    monkeypatch.setattr("jobqueue.worker.settle.time.monotonic", lambda: clock["now"])
    thread = Thread()
    verdicts: Any = SimpleNamespace(verdict=lambda *_: None, settled=lambda: None)
    settler = Settler(cast(DatabaseThread, thread), HeldJobs(), worker_id="w", verdicts=verdicts)
    settler.mean_seconds = lambda: mean_seconds
    job = ClaimedJob(1, 1, "probe.ok", "default", 100, 0, 1, 3, 0, "", 2, "{}", None, None, None, None)
    settler.add(Held(job, boottime() + 60), Done(1, 1, "null"))

    settler.pump(nothing_runs=False)
    assert not thread.busy
    due_at = settler.next_at()
    assert due_at == pytest.approx(100.0 + waits_seconds)

    clock["now"] = due_at + 0.0001
    settler.pump(nothing_runs=False)
    assert thread.busy


def test_an_end_waits_for_nobody_where_nothing_runs() -> None:
    thread = Thread()
    verdicts: Any = SimpleNamespace(verdict=lambda *_: None, settled=lambda: None)
    settler = Settler(cast(DatabaseThread, thread), HeldJobs(), worker_id="w", verdicts=verdicts)
    settler.mean_seconds = lambda: 10.0
    job = ClaimedJob(1, 1, "probe.ok", "default", 100, 0, 1, 3, 0, "", 2, "{}", None, None, None, None)
    settler.add(Held(job, boottime() + 60), Done(1, 1, "null"))

    settler.pump(nothing_runs=True)

    assert thread.busy
