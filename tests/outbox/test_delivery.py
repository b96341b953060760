"""One attempt at a real receiver: what is sent, how it is signed, what each answer means, how long it may take."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from jobqueue import outbox
from jobqueue.exceptions import InvalidWebhook, WebhookError
from jobqueue.outbox.answers import EXCERPT_BYTES
from tests.outbox.conftest import FIRST, SECOND, Names
from tests.outbox.receiver import Answer, Receiver, dripping

Configure = Callable[..., None]


def send(url: str, **options: Any) -> outbox.Delivered:
    return outbox.deliver_webhook(url, "order.paid", {"order": 7, "total": "9.99", "who": "Zoë"}, **options)


def refusal(url: str, **options: Any) -> WebhookError:
    with pytest.raises(WebhookError) as caught:
        send(url, **options)
    return caught.value


# What is sent


def test_the_body_is_an_envelope_with_type_time_and_data(target: Receiver) -> None:
    delivered = send(target.url())

    (request,) = target.requests
    assert request.json | {"timestamp": None} == {
        "type": "order.paid",
        "timestamp": None,
        "data": {"order": 7, "total": "9.99", "who": "Zoë"},
    }
    age = datetime.now(UTC) - datetime.fromisoformat(request.json["timestamp"])
    assert timedelta(0) <= age < timedelta(seconds=30)
    assert (delivered.status, delivered.response, delivered.redirects) == (200, "ok", 0)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{target.server_port}"
    assert request.headers["webhook-id"] == delivered.id


def test_without_the_envelope_the_body_is_the_data_alone(target: Receiver) -> None:
    """As Slack and others want it."""
    outbox.deliver_webhook(target.url(), "alert", {"text": "on fire"}, envelope=False)

    assert target.requests[0].body == b'{"text":"on fire"}'


def test_both_secrets_of_a_name_sign_the_newest_first(target: Receiver) -> None:
    send(target.url(), secret="partner")

    (request,) = target.requests
    for secret in (FIRST, SECOND):
        assert Webhook(secret).verify(request.body, dict(request.headers))["data"]["who"] == "Zoë"
    alone = request.headers["webhook-signature"].split(" ")[0]
    assert Webhook(FIRST).verify(request.body, {**request.headers, "webhook-signature": alone})
    with pytest.raises(WebhookVerificationError):
        Webhook(SECOND).verify(request.body, {**request.headers, "webhook-signature": alone})


def test_a_changed_body_does_not_fit_the_signature(target: Receiver) -> None:
    send(target.url(), secret="other")

    (request,) = target.requests
    with pytest.raises(WebhookVerificationError):
        Webhook(SECOND).verify(request.body.replace(b"7", b"8"), dict(request.headers))


def test_without_a_secret_there_is_an_id_and_no_signature(target: Receiver) -> None:
    send(target.url())

    assert "webhook-signature" not in target.requests[0].headers
    assert target.requests[0].headers["webhook-id"].startswith("msg_")


def test_the_callers_headers_are_sent_along(target: Receiver) -> None:
    send(target.url(), headers={"Authorization": "Bearer z", "X-Shop": "7"})

    headers = target.requests[0].headers
    assert (headers["authorization"], headers["x-shop"]) == ("Bearer z", "7")


def test_no_log_line_holds_the_url_or_the_headers(target: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """The URL of many a receiver is a secret by itself."""
    with caplog.at_level("INFO"):
        send(target.url("/services/T0/hunter2"), headers={"Authorization": "Bearer hunter2"})

    assert "hunter2" not in caplog.text


# What the answer means


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_accepted(target: Receiver, status: int) -> None:
    target.answers(Answer(status, body=b""))

    assert send(target.url()).status == status


@pytest.mark.parametrize("status", [303, 304, 400, 401, 403, 404, 405, 410, 413, 422, 451])
def test_most_4xx_are_refusals_for_good(target: Receiver, status: int) -> None:
    target.answers(Answer(status, body=b"" if status == 304 else b"no such order"))

    error = refusal(target.url())

    assert (error.permanent, error.status, error.retry_after) == (True, status, None)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 599])
def test_some_answers_may_be_better_later(target: Receiver, status: int) -> None:
    target.answers(Answer(status, body=b"busy"))

    error = refusal(target.url())

    assert (error.permanent, error.status) == (False, status)
    assert f"127.0.0.1:{target.server_port} answered {status}" in str(error)
    assert str(error).endswith(": busy")


@pytest.mark.parametrize(("value", "seconds"), [("120", 120), ("0", 0), (" 7 ", 7)])
def test_retry_after_in_seconds_is_read(target: Receiver, value: str, seconds: int) -> None:
    target.answers(Answer(429, {"Retry-After": value}))

    assert refusal(target.url()).retry_after == timedelta(seconds=seconds)


def test_retry_after_as_a_moment_is_measured_by_the_receivers_clock(target: Receiver) -> None:
    theirs = datetime(2031, 5, 17, 12, 0, tzinfo=UTC)  # years ahead of this machine's
    dates = {
        "Date": format_datetime(theirs, usegmt=True),
        "Retry-After": format_datetime(theirs + timedelta(seconds=90), usegmt=True),
    }
    target.respond = lambda _request: Answer(503, dates)

    assert refusal(target.url()).retry_after == timedelta(seconds=90)


def test_retry_after_as_a_moment_without_a_date_is_measured_by_this_hosts_clock(target: Receiver) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=600)
    target.answers(Answer(503, {"Retry-After": format_datetime(moment, usegmt=True)}))

    found = refusal(target.url()).retry_after

    assert found is not None
    assert timedelta(seconds=560) < found <= timedelta(seconds=600)


@pytest.mark.parametrize("value", ["soon", "-5", "1.5", "", "Wed, 99 Foo 2031 00:00:00 GMT"])
def test_a_retry_after_that_nobody_can_read_is_left_out(target: Receiver, value: str) -> None:
    target.answers(Answer(503, {"Retry-After": value}))

    assert refusal(target.url()).retry_after is None


def test_who_wants_to_be_left_alone_for_more_than_a_week_is_left_alone_for_good(target: Receiver) -> None:
    target.answers(Answer(429, {"Retry-After": str(8 * 86_400)}))

    error = refusal(target.url())

    assert error.permanent
    assert "Retry-After: 8 days" in str(error)


def test_no_more_of_a_huge_body_is_read_than_is_kept(target: Receiver) -> None:
    target.answers(Answer(200, body=b"x" * 65_536, endless=True))

    delivered = send(target.url())

    assert delivered.response == "x" * EXCERPT_BYTES
    assert target.sent_bytes < 50_000_000


def test_what_a_body_holds_can_always_be_stored_and_shows_no_secret(target: Receiver) -> None:
    target.answers(Answer(200, body=b"\xff\x00 password=hunter2 \xc3\xa9"))

    response = send(target.url()).response

    assert "\x00" not in response
    assert "hunter2" not in response
    assert response.endswith("é")


# How long it may take


def test_a_receiver_that_does_not_answer_is_given_up_after_the_read_time(
    target: Receiver, configure: Configure
) -> None:
    configure(WEBHOOK_READ_SECONDS=0.3)
    target.respond = lambda _request: None if target.stopping.wait(5) else Answer()

    began = time.monotonic()
    error = refusal(target.url())

    assert time.monotonic() - began < 2
    assert (error.permanent, error.status) == (False, None)
    assert "did not answer in time" in str(error)


def test_a_status_line_that_drips_in_is_given_up_after_the_whole_time(configure: Configure) -> None:
    """Each byte comes in time for the read time-out: only the time for all of it ends this."""
    configure(WEBHOOK_READ_SECONDS=1, WEBHOOK_TOTAL_SECONDS=1)
    with dripping() as port:
        began = time.monotonic()
        error = refusal(f"http://127.0.0.1:{port}/")

    assert 0.9 < time.monotonic() - began < 3
    assert not error.permanent
    assert "did not answer in time" in str(error)


def test_a_body_that_drips_in_does_not_undo_a_good_status(target: Receiver, configure: Configure) -> None:
    configure(WEBHOOK_TOTAL_SECONDS=1)
    target.answers(Answer(200, body=b"y" * 1000, drip=0.1))

    delivered = send(target.url())

    assert delivered.status == 200
    assert delivered.seconds < 2


def test_a_closed_port_and_a_cut_connection_may_be_better_later(target: Receiver) -> None:
    target.answers(None)
    cut = refusal(target.url())
    target.server_close()

    closed = refusal(target.url())

    assert [(error.permanent, error.status) for error in (cut, closed)] == [(False, None)] * 2


def test_a_name_that_is_not_known_may_be_known_later(configure: Configure) -> None:
    error = refusal("https://hooks.invalid/")

    assert not error.permanent
    assert "hooks.invalid could not be resolved" in str(error)


@pytest.mark.usefixtures("hanging_resolver")
def test_a_resolver_that_hangs_is_given_up_after_the_connect_time(configure: Configure) -> None:
    configure(WEBHOOK_CONNECT_SECONDS=0.2)

    error = refusal("https://slow.example.test/")

    assert not error.permanent
    assert "could not be resolved within 0.2 s" in str(error)


# TLS


def test_the_certificate_is_checked_against_the_name_though_the_address_is_pinned(
    secured: Receiver, names: Names
) -> None:
    names("hooks.example.test", ["127.0.0.1"])
    names("other.example.test", ["127.0.0.1"])

    assert send(secured.url(host="hooks.example.test")).status == 200
    error = refusal(secured.url(host="other.example.test"))

    assert secured.requests[0].headers["host"] == f"hooks.example.test:{secured.server_port}"
    assert not error.permanent
    assert "certificate" in str(error).lower()
    assert len(secured.requests) == 1


# Redirects


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_followed_with_the_same_message(target: Receiver, elsewhere: Receiver, status: int) -> None:
    target.answers(Answer(status, {"Location": elsewhere.url("/new")}))

    delivered = send(target.url(), secret="other", headers={"Authorization": "Bearer z"})

    (request,) = elsewhere.requests
    assert delivered.redirects == 1
    assert Webhook(SECOND).verify(request.body, dict(request.headers))
    assert request.headers["webhook-id"] == target.requests[0].headers["webhook-id"]
    # Another port is another origin: what the caller gave is for the first only.
    assert "authorization" not in request.headers


def test_headers_are_kept_within_one_origin(target: Receiver) -> None:
    target.answers(Answer(308, {"Location": "/new?x=1"}), Answer())

    send(target.url(), headers={"Authorization": "Bearer z"})

    assert [request.path for request in target.requests] == ["/hook", "/new?x=1"]
    assert target.requests[1].headers["authorization"] == "Bearer z"


def test_the_fourth_redirect_is_not_followed(target: Receiver) -> None:
    target.answers(Answer(307, {"Location": "/again"}))

    error = refusal(target.url())

    assert (error.permanent, len(target.requests)) == (True, 4)


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "https://10.0.0.1/",
        "https://user:pass@example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https://[::1",
    ],
)
def test_a_redirect_to_where_no_webhook_may_go_is_not_followed(target: Receiver, place: str) -> None:
    target.answers(Answer(307, {"Location": place}))

    error = refusal(target.url())

    assert error.permanent
    assert str(error).startswith("redirected: ")
    assert len(target.requests) == 1


def test_a_redirect_by_name_is_judged_by_what_the_name_resolves_to(target: Receiver, names: Names) -> None:
    names("inside.example.test", ["169.254.169.254"])
    target.answers(Answer(307, {"Location": "https://inside.example.test/latest/"}))

    error = refusal(target.url())

    assert error.permanent
    assert "inside.example.test is 169.254.169.254" in str(error)


def test_a_redirect_from_https_to_http_is_not_followed(secured: Receiver, target: Receiver, names: Names) -> None:
    names("hooks.example.test", ["127.0.0.1"])
    plain = target.url(host="hooks.example.test")
    secured.answers(Answer(307, {"Location": plain}))

    error = refusal(secured.url(host="hooks.example.test"))

    assert error.permanent
    assert target.requests == []


def test_what_is_wrong_with_the_call_is_said_before_anything_is_sent(target: Receiver) -> None:
    with pytest.raises(InvalidWebhook):
        send(target.url(), secret="unknown")

    assert target.requests == []
