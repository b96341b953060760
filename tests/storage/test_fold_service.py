"""What a worker's maintenance folds in one go, and how soon it looks again."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobqueue.maintenance import fold
from jobqueue.maintenance.fold import BUSY_SECONDS, IDLE_SECONDS, MINUTE, QUARTER, Fold
from jobqueue.models import Cost, Job
from tests.factories import CostFactory, ago

pytestmark = pytest.mark.django_db

HOURS = 7_200


class Asked:
    """Runs statements, and remembers into which spans it was to fold."""

    def __init__(self) -> None:
        self.spans: list[int] = []

    def __call__(self, statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.spans.append(params["to_span"])
        return Job.objects.run_sql(statement, params)


def spans() -> dict[int, int]:
    return {span: Cost.objects.filter(span_seconds=span).count() for span in (0, MINUTE, QUARTER)}


def test_an_old_row_becomes_a_minute_and_a_quarter_of_an_hour_in_one_run() -> None:
    CostFactory.create(at=ago(HOURS))

    assert Fold(Job.objects.run_sql).run_once() == {"stats": 0, "costs": 2, "counters": 0}
    assert spans() == {0: 0, MINUTE: 0, QUARTER: 1}


def test_minutes_are_asked_for_once_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [1_000.0], Asked()
    monkeypatch.setattr("jobqueue.maintenance.fold.time.monotonic", lambda: now[0])
    service = Fold(asked)

    service.run_once()
    assert asked.spans == [MINUTE, QUARTER] * 3
    now[0] += MINUTE - 1
    service.run_once()
    assert asked.spans[6:] == [MINUTE] * 3
    now[0] += 1
    service.run_once()
    assert asked.spans[9:] == [MINUTE, QUARTER] * 3


def test_a_batch_of_minutes_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BATCH", 2)
    for minutes in range(3):
        CostFactory.create(at=ago(HOURS + 60 * minutes), span_seconds=MINUTE)
    service = Fold(Job.objects.run_sql)

    seen = []
    for _ in range(2):
        service.run_once()
        seen.append(service.more)

    assert seen == [True, False]
    assert spans()[MINUTE] == 0


def test_where_nothing_was_folded_the_next_look_is_later() -> None:
    service = Fold(Job.objects.run_sql)
    assert service.interval_seconds == BUSY_SECONDS

    service.run_once()
    assert service.interval_seconds == IDLE_SECONDS
    CostFactory.create(at=ago(HOURS))
    service.run_once()
    assert service.interval_seconds == BUSY_SECONDS
