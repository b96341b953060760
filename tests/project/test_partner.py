"""project.partner: the partner's HTTP server."""

import httpx
import pytest

from project.partner import Partner

BODY = {"event": "received", "path": "a.pdf"}


@pytest.fixture
def url(partner: Partner) -> str:
    return f"http://127.0.0.1:{partner.server_port}/notifications"


def test_a_notification_is_answered_with_a_receipt(url: str) -> None:
    answer = httpx.post(url, json=BODY, headers={"Idempotency-Key": "1"})

    assert (answer.status_code, answer.json()) == (201, {"receipt": 1})
    assert httpx.get(url).json() == {"count": 1}


def test_a_repeated_notification_gets_the_first_receipt(url: str) -> None:
    answers = [httpx.post(url, json=BODY, headers={"Idempotency-Key": key}) for key in ("1", "2", "1")]

    assert [(answer.status_code, answer.json()["receipt"]) for answer in answers] == [(201, 1), (201, 2), (200, 1)]
    assert httpx.get(url).json() == {"count": 2}


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"event": 1, "path": "a"}'])
def test_what_is_no_notification_is_refused(url: str, body: bytes) -> None:
    answer = httpx.post(url, content=body, headers={"Idempotency-Key": "1"})

    assert answer.status_code == 400
    assert httpx.get(url).json() == {"count": 0}


def test_a_notification_without_a_key_is_refused(url: str) -> None:
    assert httpx.post(url, json=BODY).status_code == 400


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found(url: str, method: str) -> None:
    assert httpx.request(method, f"{url}/other").status_code == 404
