"""The product's ways through the database, once on each version of the server."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.states import Status
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import until

from .load import account, complaints


@pytest.mark.short
@pytest.mark.parametrize(
    "version",
    [pytest.param(18, marks=pytest.mark.server(version=18)), pytest.param(15, marks=pytest.mark.server(version=15))],
)
def test_every_way_of_a_job_on_every_version(
    version: int, server: PrivateServer, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """PostgreSQL 15 and 18: done, retried, dead, redriven, cancelled, scheduled, keyed, in bulk, and counted."""
    worker = launch("--processes", "2")
    assert server.execute("SHOW server_version")[0][0].startswith(str(version))

    later = enqueue("mark", _run_after=timedelta(seconds=2))
    keyed = enqueue("mark", seconds=1, _dedupe_key="one")
    assert Job.objects.enqueue("probe.mark", {}, dedupe_key="one") is None
    completed = enqueue("complete", name="group")
    kinds: list[tuple[str, dict[str, Any]]] = [("probe.ok", {}), ("probe.orm", {}), ("probe.mark", {})]
    made = [job for job in Job.objects.enqueue_many(kinds * 30) if job]
    dead, running = enqueue("boom", _max_attempts=2), enqueue("sleep", seconds=60)
    wait_for(running, Status.RUNNING)
    root = User.objects.create_superuser("root")
    operations.cancel(Job.objects.filter(pk=running.pk), actor=root)
    wait_for(running, Status.CANCELLED)
    assert wait_for(dead, Status.DEAD).attempts == 2
    operations.retry(Job.objects.filter(pk=dead.pk), actor=root)
    assert wait_for(dead, Status.DEAD).lease_epoch == 4
    assert Job.objects.ops().dead_1h == 1

    Job.objects.filter(pk__in=[running.pk, dead.pk]).delete()
    told = Job.objects.filter(job_type="jobqueue.notify")
    until(lambda: not told.exclude(status=Status.DONE).exists(), what="notices")
    account(effects=effects, other=[later, keyed, completed, *made, *told])
    assert complaints(worker) == []
