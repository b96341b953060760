"""send_webhook(): in the caller's transaction, and wrong arguments are refused before any SQL."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobqueue import outbox
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, InvalidWebhook
from jobqueue.models import Job
from jobqueue.states import Status
from tests.outbox.conftest import FIRST

pytestmark = pytest.mark.django_db

URL = "https://partner.example.test/hooks"


@pytest.fixture(autouse=True)
def _configured(configure: Callable[..., None]) -> None:
    """Use the secrets of these tests."""


def send(url: str = URL, data: Any = None, **options: Any) -> Job:
    job = outbox.send_webhook(
        url, options.pop("event", "order.paid"), {"order": 7} if data is None else data, **options
    )
    assert job is not None
    return job


@pytest.mark.smoke
def test_a_webhook_is_a_job_of_the_internal_queue() -> None:
    job = send(secret="partner", headers={"X-Shop": "7"})

    saved = Job.objects.get(pk=job.pk)
    assert (saved.job_type, saved.queue, saved.max_attempts) == ("jobqueue.webhook", "jobqueue", 12)
    assert saved.status == Status.PENDING
    payload = dict(saved.payload)
    assert payload.pop("id").startswith("msg_")
    assert payload.pop("sent_at").endswith("Z")
    assert payload == {
        "url": URL,
        "event": "order.paid",
        "data": {"order": 7},
        "secret": "partner",
        "headers": {"X-Shop": "7"},
        "envelope": True,
    }


def test_no_secret_gets_into_the_row() -> None:
    send(secret="partner")

    assert FIRST not in str(Job.objects.values().get())


def test_it_is_gone_with_a_rollback() -> None:
    with transaction.atomic():
        send()
        transaction.set_rollback(True)

    assert Job.objects.count() == 0


def test_the_options_of_an_enqueue_are_passed_on() -> None:
    job = send(
        queue="hooks", priority=3, max_attempts=2, dedupe_key="order:7", run_after=timedelta(hours=1), owner="shop",
        using="default",
    )  # fmt: skip

    saved = Job.objects.get(pk=job.pk)
    assert (saved.queue, saved.priority, saved.max_attempts, saved.owner) == ("hooks", 3, 2, "shop")
    assert saved.status == Status.SCHEDULED
    assert outbox.send_webhook(URL, "order.paid", {}, dedupe_key="order:7") is None


def test_each_message_has_an_id_of_its_own() -> None:
    assert send().payload["id"] != send().payload["id"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "https://host/path"),
        ("partner.example.test/hooks", "https://host/path"),
        ("ftp://partner.example.test/", "https://host/path"),
        ("https:///hooks", "https://host/path"),
        ("https://partner.example.test:0/", "https://host/path"),
        ("https://partner.example.test:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://me@partner.example.test/", "a user or a password"),
        ("https://me:hunter2@partner.example.test/", "a user or a password"),
        ("https://partner.example.test/a b", "no spaces"),
        ("https://partner.example.test/\nHost: x", "control characters"),
        ("https://partner.example.test\\@evil.test/", "backslashes"),
        ("http://partner.example.test/", "webhooks go by https"),
        ("https://169.254.169.254/latest/", "no public address"),
        ("https://[::ffff:10.0.0.1]/", "no public address"),
        ("https://[fe80::1%25eth0]/", "no public address"),
        ("https://partner.example.test/" + "x" * 2048, "at most 2048 bytes"),
        (None, "at most 2048 bytes"),
    ],
)
def test_a_url_that_cannot_be_is_refused_at_the_call(url: Any, told: str) -> None:
    with pytest.raises(InvalidWebhook) as caught:
        send(url)

    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert Job.objects.count() == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "https://127.0.0.1/", "http://hooks.internal/", URL])
def test_what_is_allowed_may_be_plain_http(configure: Callable[..., None], url: str) -> None:
    configure(WEBHOOK_ALLOW=["127.0.0.0/8", "hooks.internal"])

    assert send(url).payload["url"] == url


def test_http_can_be_allowed_to_everybody(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_HTTP=True)

    assert send("http://partner.example.test/").pk
    with pytest.raises(InvalidWebhook, match="no public address"):
        send("http://10.0.0.1/")


def test_a_secret_that_settings_do_not_name_is_refused_at_the_call() -> None:
    with pytest.raises(InvalidWebhook, match=r"WEBHOOK_SECRETS'\] has no secret named 'partners'"):
        send(secret="partners")


@pytest.mark.parametrize("event", ["", "order paid", "order..paid", ".paid", "ordér", 7, "x" * 256])
def test_an_event_that_cannot_be_is_refused(event: Any) -> None:
    with pytest.raises(InvalidWebhook, match="an event is letters"):
        send(event=event)


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-id": "1"},
        {"Webhook-Signature": "v1,x"},
        {"Host": "evil.test"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Content-Type": "text/plain"},
        {"X-A": "1\r\nX-B: 2"},
        {"X-A\r\nX-B": "2"},
        {"X A": "1"},
        {"X-A": "é"},
        {"X-A": 5},
        {"": "1"},
    ],
)
def test_headers_that_are_the_senders_own_or_cannot_be_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidWebhook, match="header"):
        send(headers=headers)


@pytest.mark.parametrize("data", [{"at": object()}, {"n": float("nan")}, {"t": "a\x00b"}, {1: 2}, {"t": "\ud800"}])
def test_data_that_json_or_the_database_cannot_hold_is_refused_with_its_path(data: Any) -> None:
    with pytest.raises(InvalidWebhook, match=r"the data of a webhook: \$\.data"):
        send(data=data)


@pytest.mark.parametrize("data", [None, 0, "text", [1, {"a": None}], {}])
def test_data_may_be_any_json_value(data: Any) -> None:
    job = outbox.send_webhook(URL, "order.paid", data)

    assert job is not None
    assert Job.objects.get(pk=job.pk).payload["data"] == data


def test_the_body_is_bounded_as_it_is_sent(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_MAX_BYTES=200)
    envelope = len(b'{"type":"order.paid","timestamp":"2031-05-17T12:00:00.000Z","data":""}')

    assert send(data="é" * ((200 - envelope) // 2)).pk
    with pytest.raises(InvalidWebhook, match="a webhook's body of 201 bytes is over"):
        send(data="x" * (201 - envelope))


def test_settings_show_no_secret(settings: Any) -> None:
    assert FIRST[6:] not in repr(get_settings())

    settings.JOBQUEUE = {"WEBHOOK_SECRETS": {"partner": "whsec_hunter2hunter2"}}
    with pytest.raises(ConfigurationError) as caught:
        get_settings()

    assert "hunter2" not in str(caught.value)
    assert (caught.value.__cause__, "24 to 64 random bytes" in str(caught.value)) == (None, True)
