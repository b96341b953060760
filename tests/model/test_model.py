"""The manager against the model: directed walks, a fixed random run, and thousands of steps in `make test-faults`.

A failure shows the shortest run that Hypothesis found, as calls of the rules; MODEL_SEED repeats a random one.
"""

from __future__ import annotations

import logging
import os
import random
import time

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from jobqueue.states import Status

from .arena import Arena
from .machine import JobMachine, new_machine
from .walks import ALLOWED, CELLS, MAY, WALKS, WITHOUT_A_VERB, walk

logger = logging.getLogger(__name__)  # shown by pytest --log-cli-level=INFO
pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = settings(
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),  # a loaded machine is slow, which is no fault
    stateful_step_count=50,
)
LONG_SECONDS = 60
FEWEST_STEPS = 1_500


@pytest.fixture
def machine(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> type[JobMachine]:
    """Return a machine of this test's own, which counts what it has seen."""
    # As long as the whole run may be, and the run would be ended for hanging before it showed what it found.
    monkeypatch.setattr("hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS", 60)
    return new_machine(arena)


def check_changes(machine: type[JobMachine]) -> None:
    """Fail where a verb did to a job's status what it must not."""
    wrong = set(machine.changed) - CELLS
    assert not wrong, f"(verb, status before, status after) that docs/states.md does not know: {wrong}"


def test_every_change_of_every_verb_is_reached_and_no_other(machine: type[JobMachine]) -> None:
    """The cells of docs/states.md: each verb leads from where to where; together they are states.TRANSITIONS."""
    for words in WALKS.strip().splitlines():
        one = machine()
        try:
            walk(one, words)
        except AssertionError as error:
            error.add_note(f"on the walk: {words}")
            raise
        finally:
            one.teardown()

    assert set(machine.changed) == CELLS
    assert set(machine.taken) == set(MAY)
    changes = {(old, new) for _, old, new in machine.changed if old is not None and new is not None}
    assert changes == ALLOWED - WITHOUT_A_VERB


def test_the_manager_does_what_the_model_says(machine: type[JobMachine]) -> None:
    """The same run every time."""
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=20, derandomize=True))

    check_changes(machine)


@pytest.mark.faults
@pytest.mark.parametrize("part", [1, 2])
def test_the_manager_does_what_the_model_says_over_thousands_of_steps(part: int, machine: type[JobMachine]) -> None:
    """Random runs, under other seeds each time."""
    first = int(os.environ.get("MODEL_SEED", random.SystemRandom().randrange(10**9)))
    give_up = time.monotonic() + LONG_SECONDS
    number = first
    while time.monotonic() < give_up or machine.taken.total() < FEWEST_STEPS:
        try:
            run_state_machine_as_test(seed(number)(machine), settings=settings(SETTINGS, max_examples=20))
        except BaseException as error:
            error.add_note(f"again with MODEL_SEED={number}, after {machine.taken.total()} steps")
            raise
        number += 1

    check_changes(machine)
    logger.info("%s steps, seeds %s to %s: %s", machine.taken.total(), first, number - 1, told(machine))


def told(machine: type[JobMachine]) -> str:
    """Return how often each change was seen."""
    names = {int(status): status.name for status in Status}
    return ", ".join(
        f"{verb} {names.get(old or 0, '-')}>{names.get(new or 0, '-')} {count}"
        for (verb, old, new), count in sorted(machine.changed.items(), key=str)
    )
