"""Pruning figures waits for nobody, and two workers that do it at once take different rows."""

from datetime import timedelta

import pytest

from jobqueue.managers import moving
from tests.races.conftest import Side
from tests.storage.test_prune_figures import DAY, KINDS

pytestmark = pytest.mark.django_db(transaction=True)


def prune(side: Side, limit: int = 100) -> dict[str, int]:
    return moving.prune_figures(side.run, age=timedelta(days=10), limit=limit)


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_figures_steps_over_rows_that_are_locked(kind: str, first: Side, second: Side) -> None:
    """Guards: the lock and SKIP LOCKED."""
    make, model = KINDS[kind]
    locked, other = make(12 * DAY), make(11 * DAY)
    first.connection.lock(locked)

    second.run("SET LOCAL lock_timeout = '300ms'")

    assert prune(second)[kind] == 1
    second.commit()
    assert [*model._default_manager.all()] == [locked]
    assert other.pk != locked.pk


@pytest.mark.parametrize("kind", KINDS)
def test_two_who_prune_at_once_take_different_rows(kind: str, first: Side, second: Side) -> None:
    make, model = KINDS[kind]
    for age in range(11, 15):
        make(age * DAY)

    assert prune(first, limit=2)[kind] == 2
    second.run("SET LOCAL lock_timeout = '300ms'")
    assert prune(second)[kind] == 2
    first.commit()
    second.commit()

    assert not model._default_manager.exists()
