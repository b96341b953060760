"""What the main loop hears late: of a run that has ended meanwhile, or before the child's own report is read."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from jobqueue import sql
from jobqueue.children.launcher import Launcher
from jobqueue.children.protocol import receive_message
from jobqueue.conf import get_settings
from jobqueue.managers import Release, Renewal, Span, leasing
from jobqueue.models import Job
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.options import WorkerOptions
from jobqueue.worker.pool import Pool
from jobqueue.worker.stops import Stops
from jobqueue.worker.supervisor import Supervisor
from tests.factories import JobFactory

from .test_handing_out import Sockets, a_job


class Asked(Sockets):
    """Children that are their sockets alone, and hear no signal."""

    def signal(self, _key: str, _number: int) -> None:
        """Signal nobody."""


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


@pytest.mark.parametrize("taken", [1, 2], ids=["still in the inbox", "taken out by its child"])
def test_a_job_that_its_child_has_just_begun_is_cancelled_as_one_that_runs(taken: int) -> None:
    """The report of the job before it is not read yet. It was "cancelled before its handler began", and ran on."""
    pool, held, back = Pool(cast(Launcher, Asked()), processes=1, threads=1), HeldJobs(), list[Held]()
    stops = Stops(pool, held, get_settings())
    stops.put_back = back.extend
    (child,) = pool.common.fill()
    child.pid = 1
    before, item = (Held(a_job(number), boottime() + 60) for number in (1, 2))
    for each in (before, item):
        assert child.give(each)
    child.mark_started()
    for _ in range(taken):
        receive_message(child.channels.inbox_far)

    begun = stops.cancel(item)
    pool.bury(child)

    assert item.started is None
    assert (begun, item.asked) == ((True, "cancel") if taken == 2 else (False, None))
    assert back == ([] if taken == 2 else [item])
