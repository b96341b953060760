"""Fixtures of the outbox's tests: receivers, secrets, and names that resolve to what a test wants."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.outbox.certificates import make_certificate
from tests.outbox.receiver import Receiver, receiver
from tests.worker.conftest import effects, launch, wait_for

__all__ = ["effects", "launch", "wait_for"]

FIRST, SECOND = (f"whsec_{letter * 43}=" for letter in "ab")
OPEN = {
    "WEBHOOK_ALLOW": ["127.0.0.0/8"],
    "WEBHOOK_SECRETS": {"partner": [FIRST, SECOND], "other": SECOND},
    "WEBHOOK_CONNECT_SECONDS": 2,
    "WEBHOOK_READ_SECONDS": 2,
    "WEBHOOK_TOTAL_SECONDS": 3,
}
Names = Callable[..., None]


@pytest.fixture
def configure(settings: Settings) -> Callable[..., None]:
    """Return the function that sets JOBQUEUE: these on top of what lets a webhook go to this machine."""

    def change(**values: Any) -> None:
        settings.JOBQUEUE = {**OPEN, **values}

    change()
    return change


@pytest.fixture
def target(configure: Callable[..., None]) -> Iterator[Receiver]:
    """Return a receiver that webhooks may go to."""
    with receiver() as server:
        yield server


@pytest.fixture
def elsewhere(configure: Callable[..., None]) -> Iterator[Receiver]:
    """Return a second one."""
    with receiver() as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for hooks.example.test, signed by itself."""
    return make_certificate(tmp_path_factory.mktemp("tls"), "hooks.example.test")


@pytest.fixture
def secured(configure: Callable[..., None], certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Return a receiver by TLS, whose certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with receiver(certificate) as server:
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Return the function that has a name resolve to one list of addresses after another, the last one for ever.

    names("hooks.example.test", ["127.0.0.1"], ["10.0.0.1"]). Only the answer is made: all else is the system's.
    """
    known: dict[str, list[list[str]]] = {}
    ask = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        left = known.get(host)
        if left is None:
            return ask(host, port, *args, **kwargs)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [answer for address in found for answer in ask(address, port, *args, **kwargs)]

    def tell(host: str, *answers: list[str]) -> None:
        known[host] = list(answers)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return tell


@pytest.fixture
def hanging_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no name resolved before the end of the test."""
    ended = threading.Event()
    ask = socket.getaddrinfo

    def look_up(*args: Any, **kwargs: Any) -> Any:
        ended.wait(30)
        return ask("127.0.0.1", *args[1:], **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    ended.set()
