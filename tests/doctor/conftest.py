"""Examine, and tell what was found."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobqueue import __version__
from jobqueue.doctor import looking
from jobqueue.doctor.examining import examine
from jobqueue.doctor.findings import Checked, Diagnosis, Finding
from jobqueue.models import Job, Worker
from tests.factories import WorkerFactory, ago
from tests.ops.conftest import patient  # noqa: F401  (a fixture)


class Found:
    """What one examination came to."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis

    @property
    def codes(self) -> list[str]:
        """The kinds of all findings."""
        return [finding.code for finding in self.diagnosis.findings]

    def one(self, code: str) -> Finding:
        """Return the one finding of a kind."""
        [found] = [finding for finding in self.diagnosis.findings if finding.code == code]
        return found

    def check(self, name: str) -> Checked:
        """Return one check."""
        return next(check for check in self.diagnosis.checks if check.name == name)


@pytest.fixture
def examined(patient: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Found]:  # noqa: F811  (that fixture)
    """Return the function that examines the test's database, with time enough on a machine that does other things."""
    monkeypatch.setattr(looking, "LIMIT", timedelta(seconds=20))
    return lambda: Found(examine(Job.objects.db_manager(Job.objects.write_db)))


@pytest.fixture
def worker(db: None) -> Worker:
    """Have one worker that is well and serves every queue."""
    worker: Worker = WorkerFactory.create(queues=["*"], claimed_at=ago(1), version=__version__, listening=True)
    return worker
