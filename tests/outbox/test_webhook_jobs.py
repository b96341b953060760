"""The job behind a webhook, run for real: what each answer makes of it, and when it is tried again."""

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from jobqueue import outbox
from jobqueue.models import Attempt, Host, Job
from jobqueue.outbox import hosts
from jobqueue.states import Status
from jobqueue.testing import run_once
from tests.outbox.receiver import Answer, Receiver

pytestmark = pytest.mark.django_db

Configure = Callable[..., None]


def send(url: str, **options: Any) -> Job:
    job = outbox.send_webhook(url, "order.paid", {"order": 7}, **options)
    assert job is not None
    return job


def saved(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def run(job: Job) -> Job:
    """Run what is due of the internal jobs, and return this one as it is then."""
    run_once()
    return saved(job)


def wait_seconds(job: Job) -> float:
    """Return how long from now the job waits, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM run_after - statement_timestamp())::float8 FROM jobqueue_job WHERE id = %s",
            [job.pk],
        )
        return float(cursor.fetchone()[0])


def make_due(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now() - timedelta(seconds=1))


def test_an_accepted_message_ends_its_job_and_its_answer_is_kept(target: Receiver) -> None:
    target.answers(Answer(202, body=b"queued as 17"))

    job = run(send(target.url()))

    assert (job.status, job.attempts) == (Status.DONE, 1)
    assert (job.result["status"], job.result["response"]) == (202, "queued as 17")
    assert job.result["id"] == target.requests[0].headers["webhook-id"] == job.payload["id"]
    assert not Host.objects.exists()


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_refusal_for_good_makes_a_dead_letter_at_once(target: Receiver, status: int) -> None:
    target.answers(Answer(status, body=b"no such endpoint"))

    job = run(send(target.url()))

    assert (job.status, job.attempts, len(target.requests)) == (Status.DEAD, 1, 1)
    assert f"answered {status}" in job.last_error
    assert "no such endpoint" in job.last_error
    assert job.error_class == "jobqueue.exceptions.Dead"


def test_the_id_and_the_body_are_the_same_in_every_attempt_and_after_a_redrive(target: Receiver) -> None:
    target.answers(Answer(500), Answer(404), Answer(200))
    job = run(send(target.url(), secret="partner"))
    assert job.status == Status.SCHEDULED
    make_due(job)
    assert run(job).status == Status.DEAD

    Job.objects.redrive([job.pk])

    assert run(job).status == Status.DONE
    assert len({request.headers["webhook-id"] for request in target.requests}) == 1
    assert len({request.body for request in target.requests}) == 1
    assert len(target.requests) == 3


@pytest.mark.parametrize(
    ("answer", "least", "most"),
    [
        (Answer(500), 10, 13),
        (Answer(503, {"Retry-After": "2"}), 10, 13),
        (Answer(429, {"Retry-After": "120"}), 119, 121),
        (None, 10, 13),
    ],
    ids=["backoff", "shorter than the backoff", "longer than the backoff", "no answer"],
)
def test_a_retry_waits_for_the_backoff_and_at_least_for_retry_after(
    target: Receiver, answer: Answer | None, least: float, most: float
) -> None:
    target.answers(answer)

    job = run(send(target.url()))

    assert (job.status, job.attempts) == (Status.SCHEDULED, 1)
    assert least - 1 < wait_seconds(job) <= most
    assert Attempt.objects.get(job_id=job.pk).error_class == "jobqueue.exceptions.Retry"


def test_a_message_that_is_never_accepted_becomes_a_dead_letter(target: Receiver) -> None:
    target.answers(Answer(500))
    job = send(target.url(), max_attempts=3)

    for _ in range(3):
        job = run(job)
        make_due(job)

    assert (saved(job).status, len(target.requests)) == (Status.DEAD, 3)


def test_a_busy_host_is_waited_for_without_being_charged(target: Receiver, configure: Configure) -> None:
    configure(WEBHOOK_PER_HOST=1)
    held = hosts.take(f"127.0.0.1:{target.server_port}")

    job = run(send(target.url()))

    assert (job.status, job.attempts, target.requests) == (Status.SCHEDULED, 0, [])
    assert 0 < wait_seconds(job) < 3
    assert held.token is not None
    hosts.free(f"127.0.0.1:{target.server_port}", held.token, well=True)
    make_due(job)
    assert run(job).status == Status.DONE


def test_a_host_that_fails_five_times_in_a_row_is_left_alone_and_waiting_costs_nothing(target: Receiver) -> None:
    target.answers(Answer(500))
    for _ in range(5):
        run(send(target.url()))

    job = run(send(target.url()))

    assert len(target.requests) == 5
    assert (job.status, job.attempts) == (Status.SCHEDULED, 0)
    assert 50 < wait_seconds(job) <= 90


def test_a_message_that_has_waited_for_a_day_is_charged_for_waiting(target: Receiver) -> None:
    """Else a host that never comes back would keep its messages for ever."""
    host = f"127.0.0.1:{target.server_port}"
    Host.objects.create(name=host, failures=9, open_until=timezone.now() + timedelta(seconds=600))
    job = send(target.url())
    long_ago = (timezone.now() - timedelta(days=2)).isoformat()
    Job.objects.filter(pk=job.pk).update(payload={**job.payload, "sent_at": long_ago})

    job = run(job)

    assert (job.status, job.attempts) == (Status.SCHEDULED, 1)
    assert wait_seconds(job) > 590
    assert "left alone" in job.last_error


def test_a_refusal_says_that_the_host_is_well(target: Receiver) -> None:
    target.answers(*[Answer(500)] * 4, Answer(404), Answer(500))
    for _ in range(6):
        run(send(target.url()))

    assert Host.objects.get().failures == 1


def test_an_address_that_settings_no_longer_allow_makes_a_dead_letter(target: Receiver, configure: Configure) -> None:
    job = send(target.url())
    configure(WEBHOOK_ALLOW=[])

    job = run(job)

    assert (job.status, target.requests) == (Status.DEAD, [])
    assert "127.0.0.1 is no public address" in job.last_error
    assert not Host.objects.exists()


def test_a_secret_that_was_taken_away_is_waited_for(target: Receiver, configure: Configure) -> None:
    """A deployment with half of the settings must not make dead letters of everything that it meets."""
    job = send(target.url(), secret="other")
    configure(WEBHOOK_SECRETS={})

    job = run(job)

    assert (job.status, target.requests) == (Status.SCHEDULED, [])
    assert "no secret named 'other' any more" in job.last_error
    assert not Host.objects.exists()


def test_a_rotated_secret_signs_what_was_enqueued_before(target: Receiver, configure: Configure) -> None:
    from standardwebhooks.webhooks import Webhook

    job = send(target.url(), secret="other")
    newest = f"whsec_{'c' * 43}="
    configure(WEBHOOK_SECRETS={"other": [newest]})

    assert run(job).status == Status.DONE

    assert Webhook(newest).verify(target.requests[0].body, dict(target.requests[0].headers))


def test_without_the_extra_the_job_waits_and_says_what_to_install(
    target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = send(target.url())
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "jobqueue.outbox.client", raising=False)

    job = run(job)

    assert (job.status, target.requests) == (Status.SCHEDULED, [])
    assert "pip install 'jobqueue[webhooks]'" in job.last_error


def test_a_turn_that_cannot_be_given_back_does_not_fail_what_was_sent(
    target: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(hosts, "free", away)

    job = run(send(target.url()))

    assert job.status == Status.DONE
    assert f"host not freed host=127.0.0.1:{target.server_port}" in caplog.text
