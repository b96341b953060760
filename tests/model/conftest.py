"""The arena of the state machine, and settings under which everything happens within few steps."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from jobqueue.managers import jobs

from .arena import LOCK_TIMEOUT, Arena


@pytest.fixture
def few_interruptions(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Spare interruptions twice only, and keep the lines of the operations out of what a failure shows."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "INTERRUPTION_BUDGET": 2}
    caplog.set_level("WARNING", "jobqueue")


@pytest.fixture
def arena(transactional_db: None, few_interruptions: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """Return two connections that wait for locked rows as short as can be: nobody will let go of them meanwhile."""
    monkeypatch.setattr(jobs, "LOCK_TIMEOUT", LOCK_TIMEOUT)
    arena = Arena()
    try:
        yield arena
    finally:
        arena.close()


@pytest.fixture
def patient_arena(transactional_db: None, few_interruptions: None) -> Iterator[Arena]:
    """Return two connections that wait for each other."""
    arena = Arena(lock_timeout="8s")
    try:
        yield arena
    finally:
        arena.close()
