"""Dedupe keys: one active job a key; None or the holder for those who come later; free again when it is finished."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from jobqueue.managers import inserting
from jobqueue.models import Job
from jobqueue.states import ACTIVE, FINISHED, Status

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


@pytest.mark.parametrize("status", ACTIVE)
def test_an_active_job_holds_its_key(status: Status, make_job: MakeJob) -> None:
    holder = make_job(status=status, dedupe_key="k")

    assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None
    assert Job.objects.get_or_enqueue("probe.ok", dedupe_key="k") == (holder, False)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("status", FINISHED)
def test_a_finished_job_has_let_go_of_it(status: Status, make_job: MakeJob) -> None:
    make_job(status=status, dedupe_key="k")

    job, created = Job.objects.get_or_enqueue("probe.ok", {"n": 1}, dedupe_key="k", priority=3)

    assert (created, job.payload, job.priority) == (True, {"n": 1}, 3)


def test_a_job_for_later_asks_for_the_key_too(make_job: MakeJob) -> None:
    """Case C160. Guard: ON CONFLICT in insert_job."""
    later = timedelta(hours=1)
    holder = Job.objects.enqueue("probe.ok", dedupe_key="k", run_after=later)

    assert Job.objects.enqueue("probe.ok", dedupe_key="k", run_after=later) is None
    assert Job.objects.get_or_enqueue("probe.ok", dedupe_key="k", run_after=later) == (holder, False)


def test_jobs_without_a_key_never_hold_one() -> None:
    assert Job.objects.enqueue("probe.ok")
    assert Job.objects.enqueue("probe.ok")


def test_two_keys_do_not_meet() -> None:
    assert Job.objects.enqueue("probe.ok", dedupe_key="a")
    assert Job.objects.enqueue("probe.echo", dedupe_key="A")


def test_a_held_key_leaves_the_callers_transaction_usable(make_job: MakeJob) -> None:
    """Case C39: no IntegrityError that breaks the loser's transaction."""
    make_job(dedupe_key="k")

    with transaction.atomic():
        assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None
        assert Job.objects.enqueue("probe.ok", dedupe_key="other")


def test_the_database_itself_refuses_a_second_active_job(make_job: MakeJob) -> None:
    make_job(dedupe_key="k", status=Status.RUNNING)

    with pytest.raises(IntegrityError, match="jobqueue_job_dedupe"), transaction.atomic():
        make_job(dedupe_key="k", status=Status.SCHEDULED)


def test_a_failed_attempt_keeps_the_key_so_a_second_job_is_refused_up_front(leased: MakeJob) -> None:
    """Case C37: putting a failed job back never meets a newer one of its key."""
    job = leased(dedupe_key="k")

    assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None
    Job.objects.fail(job, "boom")
    assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None


@pytest.mark.parametrize("bad", [None, "", 7])
def test_get_or_enqueue_needs_a_key(bad: Any) -> None:
    with pytest.raises(ValueError, match="dedupe_key must"):
        Job.objects.get_or_enqueue("probe.ok", dedupe_key=bad)


def test_get_or_enqueue_tries_again_when_the_holder_finishes_in_between(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The insert met the holder, the look did not: the key is free again and the next insert takes it."""
    holder = make_job(dedupe_key="k")
    insert_one, tries = inserting.insert_one, []

    def insert_then_finish(*args: Any) -> Any:
        row = insert_one(*args)
        tries.append(row)
        Job.objects.filter(pk=holder.pk).update(status=Status.DONE)
        return row

    monkeypatch.setattr(inserting, "insert_one", insert_then_finish)

    job, created = Job.objects.get_or_enqueue("probe.ok", dedupe_key="k")

    assert (created, len(tries), tries[0]) == (True, 2, None)
    assert job.pk != holder.pk
