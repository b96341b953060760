"""Time for the snapshot's reads on a machine that does other things, too."""

from datetime import timedelta

import pytest

from jobqueue.ops import limited, reading


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each read of a snapshot enough time."""
    monkeypatch.setattr(reading, "EACH", timedelta(seconds=5))
    monkeypatch.setattr(reading, "TOTAL", timedelta(seconds=30))
    monkeypatch.setattr(limited, "LOCK_MILLISECONDS", 2_000)
