"""What the main loop hears late, of a run that has ended meanwhile."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.managers import Release, Renewal, Span, leasing
from jobqueue.models import Job
from jobqueue.worker.holding import Held, boottime
from jobqueue.worker.options import WorkerOptions
from jobqueue.worker.supervisor import Supervisor
from tests.factories import JobFactory


def claim(worker: Supervisor) -> Held:
    run, worker_id = Job.objects.run_sql, worker.options.worker_id
    (job,) = leasing.claim(run, spans=[Span("default", 1)], worker_id=worker_id, lease=worker.options.lease)
    held = Held(job, boottime() + 60)
    worker.held.add([held])
    return held


@pytest.fixture
def worker() -> Iterator[Supervisor]:
    worker = Supervisor(WorkerOptions.make(get_settings(), alias="default"))
    yield worker
    for session in (worker.claimer.session, worker.settling.session, worker.heartbeat.session):
        session.close()


@pytest.mark.django_db(transaction=True)
def test_a_lost_lease_is_not_that_of_a_later_run(worker: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job was given back and claimed again by this worker while the renewal of its first run was on its way."""
    JobFactory.create()
    first, runs = claim(worker), list[Held]()
    run = worker.heartbeat.session.run

    def late(statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if statement == sql.RENEW_LEASES and not runs:
            leasing.release(run, worker_id=worker.options.worker_id, releases=[Release(*first.fence)])
            worker.held.remove(first)
            runs.append(claim(worker))
        return run(statement, params)

    monkeypatch.setattr(worker.heartbeat.session, "run", late)
    worker.heartbeat._renew()
    worker.inbox.run_all()

    (second,) = runs
    assert second.fence != first.fence
    assert (second.lost, second.asked) == (False, None)
    worker.verdicts.heard([(second, Renewal(second.job.id, "lost", False))])
    assert second.lost
