"""Jobs and the transactions that enqueue them, watched by workers that look for work all the time."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from jobqueue.exceptions import PayloadError
from jobqueue.models import Job
from jobqueue.states import Status
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import holds_for


def test_no_job_starts_before_the_commit_or_after_a_rollback(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C21: two workers poll twenty times a second while transactions stay open for two seconds."""
    for _ in range(2):
        launch("--processes", "1", POLL_SECONDS=0.05)
    gone: list[int] = []
    with transaction.atomic():
        Group.objects.create(name="outer")
        kept = [enqueue("touch", name="outer")]
        with transaction.atomic():
            Group.objects.create(name="released")
            kept.append(enqueue("touch", name="released"))
        with transaction.atomic():
            gone += [enqueue("touch", name="outer").pk, enqueue("mark").pk]
            gone += [job.pk for job in Job.objects.enqueue_many([("probe.mark", {})] * 3) if job]
            transaction.set_rollback(True)
        kept += [job for job in Job.objects.enqueue_many([("probe.touch", {"name": "outer"})] * 3) if job]
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(2)")
        statuses = Job.objects.filter(pk__in=[job.pk for job in kept]).values_list("status", "lease_epoch")
        assert set(statuses) == {(Status.PENDING, 0)}
    with transaction.atomic():
        Group.objects.create(name="rolled back")
        gone += [enqueue("touch", name="rolled back").pk, enqueue("mark").pk]
        holds_for(1, lambda: effects.count("start") == 0)
        transaction.set_rollback(True)
    Group.objects.create(name="autocommit")
    kept.append(enqueue("touch", name="autocommit"))

    for job in kept:
        assert wait_for(job).attempts == 1
    assert not Job.objects.filter(pk__in=gone).exists()
    assert effects.count("start") == 0


def test_a_refused_argument_costs_the_callers_transaction_nothing(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C22: between two rows of the caller; both commit, the good job beside them runs, nothing of the bad ones does."""
    launch("--processes", "1")
    with transaction.atomic():
        Group.objects.create(name="first")
        for bad in ("x\x00", float("nan"), "\ud800", "y" * 10_000_000):
            with pytest.raises(PayloadError, match="item 60"):
                Job.objects.enqueue_many([("probe.mark", {"a": [1]})] * 60 + [("probe.mark", {"a": [bad]})])
        good = enqueue("touch", name="second")
        Group.objects.create(name="second")

    assert wait_for(good).result == "second"
    assert set(Group.objects.values_list("name", flat=True)) == {"first", "second"}
    assert Job.objects.filter(job_type="probe.mark").count() == 0
