"""Webhooks sent by real workers: at once after the commit, again after a kill, and so many at a time to one host."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from jobqueue import outbox
from jobqueue.models import Attempt, Host, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.outbox.conftest import FIRST, OPEN
from tests.outbox.receiver import Answer, Receiver, Request, receiver
from tests.outbox.smtp import smtp_server
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

Launch = Callable[..., RunningWorker]
Settings = dict[str, Any]
WORKER = {"WEBHOOK_ALLOW": "127.0.0.0/8", "WEBHOOK_SECRETS": OPEN["WEBHOOK_SECRETS"]}


@pytest.fixture(autouse=True)
def _configured(configure: Callable[..., None]) -> None:
    """Let this process enqueue what the workers may send."""


@pytest.fixture
def target(_configured: None) -> Iterator[Receiver]:
    """Return a receiver."""
    with receiver() as server:
        yield server


def send(url: str, **options: Any) -> Job:
    job = outbox.send_webhook(url, "order.paid", {"order": 7}, secret="partner", **options)
    assert job is not None
    return job


def test_a_webhook_is_sent_after_the_commit_and_not_before(
    launch: Launch, target: Receiver, wait_for: Callable[..., Any]
) -> None:
    launch(**WORKER)

    with transaction.atomic():
        job = send(target.url())
        rolled_back = transaction.savepoint()
        send(target.url("/rolled-back"))
        transaction.savepoint_rollback(rolled_back)
        assert target.requests == []

    done = wait_for(job)
    (request,) = target.requests
    assert done.result["status"] == 200
    assert Webhook(FIRST).verify(request.body, dict(request.headers))["type"] == "order.paid"


def test_a_child_killed_between_the_send_and_the_settle_sends_the_same_message_again(
    launch: Launch, target: Receiver, wait_for: Callable[..., Any]
) -> None:
    """At least once: the receiver knows by the id that it has the message already."""
    worker = launch(**WORKER)
    worker.may_show_tracebacks = True

    def kill_the_sender(_request: Request) -> Answer | None:
        target.respond = lambda _again: Answer()
        for pid in worker.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return None

    target.respond = kill_the_sender
    job = send(target.url())
    wait_for(job, Status.SCHEDULED)
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now())

    assert wait_for(job).attempts == 2

    first, second = target.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == job.payload["id"]
    assert first.body == second.body
    assert Webhook(FIRST).verify(second.body, dict(second.headers))
    assert Attempt.objects.get(job_id=job.pk).outcome == Outcome.CRASHED


@pytest.mark.faults
def test_no_more_requests_at_a_time_than_one_host_is_to_get(launch: Launch, target: Receiver) -> None:
    """Two workers with eight slots between them, and two turns: the others wait, uncharged."""
    lock, going, most = threading.Lock(), [0], [0]

    def slowly(_request: Request) -> Answer:
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
        target.stopping.wait(0.2)
        with lock:
            going[0] -= 1
        return Answer()

    target.respond = slowly
    for _ in range(2):
        launch("--threads", "4", **WORKER, WEBHOOK_PER_HOST=2, PROCESSES=1)
    jobs = [send(target.url(), queue="hooks").pk for _ in range(16)]

    def all_done() -> bool:
        return Job.objects.filter(pk__in=jobs, status=Status.DONE).count() == len(jobs)

    until(all_done, within=60, what=lambda: str(list(Job.objects.values_list("status", "attempts", "last_error"))))

    assert most[0] == 2
    assert set(Job.objects.filter(pk__in=jobs).values_list("attempts", flat=True)) == {1}
    assert not Attempt.objects.filter(job_id__in=jobs).exclude(outcome=Outcome.INTERRUPTED).exists()
    until(lambda: not Host.objects.exists(), what="no row of a host that is well")


def test_a_mail_is_sent_by_a_worker(launch: Launch, wait_for: Callable[..., Any]) -> None:
    from django.core.mail import EmailMessage

    with smtp_server() as server:
        launch(env={"PROBE_SMTP": str(server.port)})
        job = outbox.send_mail(EmailMessage("Your order", "Paid.", "shop@example.com", ["zoe@example.com"]))
        assert job is not None
        wait_for(job)

        (mail,) = server.mails
        assert mail.recipients == ["zoe@example.com"]
