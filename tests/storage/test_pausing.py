"""Paused queues: what a claim leaves out, for how long, and that other queues never notice."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from jobqueue.managers import Span, leasing, pausing
from jobqueue.models import Job, Queue
from jobqueue.testing import run_once
from tests.connections import SecondConnection
from tests.factories import JobFactory, ago, ahead

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=60)
run = Job.objects.run_sql


def pause(name: str, **fields: object) -> None:
    Queue.objects.create(name=name, **{"paused_at": ago(5), **fields})


def claim(*queues: str) -> set[str]:
    """Claim one job of each queue and return the queues that gave one."""
    spans = [Span(queue, 1) for queue in queues]
    return {job.queue for job in leasing.claim(run, spans=spans, worker_id="w", lease=LEASE)}


def test_a_paused_queue_is_left_out_of_a_claim_and_others_are_not() -> None:
    for queue in ("mail", "default", "jobqueue"):
        JobFactory.create(queue=queue)
    pause("mail")

    assert claim("mail", "default", "jobqueue") == {"default", "jobqueue"}


def test_a_pause_of_all_leaves_the_queue_of_alarms_alone() -> None:
    for queue in ("mail", "default", "jobqueue"):
        JobFactory.create(queue=queue)
    pause("*")

    assert claim("mail", "default", "jobqueue") == {"jobqueue"}


def test_the_queue_of_alarms_can_be_paused_by_its_name() -> None:
    JobFactory.create(queue="jobqueue")
    pause("jobqueue")

    assert claim("jobqueue") == set()


def test_a_pause_ends_by_itself_at_its_time() -> None:
    for queue in ("over", "on", "resumed"):
        JobFactory.create(queue=queue)
    pause("over", resumes_at=ago(1))
    pause("on", resumes_at=ahead(60))
    pause("resumed", paused_at=None)

    assert claim("over", "on", "resumed") == {"over", "resumed"}


def test_the_total_of_a_claim_goes_to_the_queues_that_are_not_paused() -> None:
    JobFactory.create_batch(3, queue="mail")
    JobFactory.create_batch(3, queue="default")
    pause("mail")

    claimed = leasing.claim(run, spans=[Span("mail", 3), Span("default", 3)], worker_id="w", lease=LEASE, total=3)

    assert {job.queue for job in claimed} == {"default"}
    assert len(claimed) == 3


def test_run_once_and_the_manager_claim_nothing_of_a_paused_queue() -> None:
    job = JobFactory.create(queue="mail")
    pause("mail")

    assert run_once(queues=["mail"]) == []
    assert Job.objects.claim(worker_id="w", queues=["mail"]) == []
    pausing.resume(run, name="mail")

    assert [status for _, status in run_once(queues=["mail"])] == [Job.objects.get(pk=job.pk).status]


def test_run_once_runs_the_best_job_of_the_queues_that_are_not_paused() -> None:
    """A paused queue whose job would be the best must not hide those of others."""
    JobFactory.create(queue="mail", priority=1)
    other = JobFactory.create(queue="default")
    pause("mail")

    assert [job_id for job_id, _ in run_once(5)] == [other.pk]


@pytest.mark.django_db(transaction=True)
def test_a_pause_holds_for_the_first_claim_after_its_commit_and_not_before(
    second_connection: SecondConnection,
) -> None:
    JobFactory.create_batch(2, queue="mail")
    pausing.pause(second_connection.execute, name="mail", paused_by="p", reason="", until=None)
    assert claim("mail") == {"mail"}  # not committed, and the claim waits for nobody

    second_connection.commit()

    assert claim("mail") == set()


def test_a_second_pause_says_who_and_why_now_and_keeps_since_when() -> None:
    pause("mail", paused_by="ann", reason="before")
    since = Queue.objects.get().paused_at
    until = timezone.now() + timedelta(hours=1)

    assert pausing.pause(run, name="mail", paused_by="bob", reason="now", until=until) == (since, until)

    row = Queue.objects.get()
    assert (row.paused_at, row.paused_by, row.reason, row.resumes_at) == (since, "bob", "now", until)


@pytest.mark.parametrize("fields", [{"resumes_at": ago(1)}, {"paused_at": None}])
def test_a_pause_that_is_over_begins_anew(fields: dict[str, object]) -> None:
    pause("mail", **{"paused_at": ago(500), **fields})

    found = pausing.pause(run, name="mail", paused_by="bob", reason="", until=None)

    assert found is not None
    assert timezone.now() - found[0] < timedelta(seconds=60)


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"paused_by": "ann"}, False),
        ({"paused_by": "ann", "resumes_at": ahead(60)}, False),
        ({"paused_by": "ann", "resumes_at": ago(1)}, True),
        ({"paused_by": "ann", "paused_at": None}, True),
        ({"paused_by": "budget:other"}, True),
    ],
)
def test_a_pause_that_yields_never_overwrites_a_persons(fields: dict[str, object], taken: bool) -> None:
    pause("mail", **fields)

    found = pausing.pause(run, name="mail", paused_by="budget:mine", reason="", until=None, yields=True)

    assert (found is not None) is taken
    assert Queue.objects.get().paused_by == ("budget:mine" if taken else "ann")


def test_resume_tells_whether_there_was_a_pause_and_can_ask_whose() -> None:
    pause("mail", paused_by="ann", reason="r", resumes_at=ahead(60))
    pause("over", paused_by="ann", resumes_at=ago(1))

    assert not pausing.resume(run, name="mail", paused_by="bob")
    assert not pausing.resume(run, name="over")
    assert not pausing.resume(run, name="other")
    assert pausing.resume(run, name="mail", paused_by="ann")
    assert not pausing.resume(run, name="mail")

    row = Queue.objects.get(name="mail")
    assert (row.paused_at, row.paused_by, row.reason, row.resumes_at) == (None, "", "", None)


def test_who_is_woken_by_a_resume_of_all_are_the_queues_with_due_jobs(make_job: Callable[..., Job]) -> None:
    make_job(queue="a"), make_job(queue="b")

    assert pausing.woken_by(run, "*") == {"a", "b"}
    assert pausing.woken_by(run, "c") == {"c"}
