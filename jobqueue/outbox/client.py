"""One POST by httpx, to an address that was judged right before the connection, and within one time for all of it.

Between httpx and the socket stands a backend of httpcore that resolves and judges the host itself (addresses.py) and
connects to the very address that it judged: name, certificate and Host header stay those of the URL. Every read and
write gets at most what is left of the whole time. Proxies of the environment are not used: they would resolve anew.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import httpcore
import httpx

from jobqueue.conf import get_settings
from jobqueue.exceptions import WebhookError

from .addresses import resolve
from .answers import EXCERPT_BYTES

_PASSED_ON: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body's head only, the rest is never read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Clock:
    """The time that one delivery has, all its connections, redirects and reads together."""

    __slots__ = ("_ends_at",)

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def left(self, at_most: float | None = None) -> float:
        """Return the seconds left, at most so many. Raises httpcore.ReadTimeout when there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout(f"not within {get_settings().WEBHOOK_TOTAL_SECONDS:g} s in all")
        return left if at_most is None else min(left, at_most)


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end with the whole time."""

    def __init__(self, stream: httpcore.NetworkStream, clock: Clock) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._clock.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._clock.left(timeout))
        return _Stream(secured, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _JudgingBackend(httpcore.NetworkBackend):
    """Connects by TCP to addresses that are allowed, and to nothing else."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._plain = clock, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failed: Exception | None = None
        for address in resolve(host, port, timeout=self._clock.left(timeout)):
            try:
                stream = self._plain.connect_tcp(
                    address, port, self._clock.left(timeout), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            else:
                return _Stream(stream, self._clock)
        raise failed or httpcore.ConnectError(f"{host} has no address")


@lru_cache(maxsize=2)
def _ssl_context(*_environment: str | None) -> ssl.SSLContext:
    """Return what certificates are checked by, read once: that takes longer than most deliveries."""
    return httpx.create_ssl_context()


class _Transport(httpx.BaseTransport):
    """Hands httpx's requests to httpcore with that backend."""

    def __init__(self, clock: Clock) -> None:
        context = _ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        self._pool = httpcore.ConnectionPool(ssl_context=context, network_backend=_JudgingBackend(clock))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        inner = httpcore.Request(
            request.method, target, headers=request.headers.raw, content=request.read(), extensions=request.extensions
        )
        with _translated():
            found = self._pool.handle_request(inner)
        return httpx.Response(
            found.status, headers=found.headers, stream=_Body(found.stream), extensions=found.extensions
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    """The body of an answer, piece by piece."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._stream

    def close(self) -> None:
        self._stream.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raise httpx's errors where httpcore raises its own."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise httpx.TimeoutException(str(error)) from error
    except _PASSED_ON as error:
        raise httpx.TransportError(str(error)) from error


def post(url: str, host: str, body: bytes, headers: Mapping[str, str], clock: Clock) -> Answer:
    """Send one request and return the answer's head; redirects are not followed.

    Raises WebhookError, naming the host, where there is no answer in time or the address is not allowed.
    """
    try:
        return _post(url, body, headers, clock)
    except (httpx.TimeoutException, httpcore.TimeoutException) as error:
        raise WebhookError(f"{host} did not answer in time: {_told(error)}", permanent=False) from error
    except httpx.TransportError as error:
        raise WebhookError(f"{host}: {_told(error)}", permanent=False) from error
    except httpx.InvalidURL as error:
        raise WebhookError(f"{host}: {error}", permanent=True) from error


def _told(error: Exception) -> str:
    return str(error) or type(error.__cause__ or error).__name__


def _post(url: str, body: bytes, headers: Mapping[str, str], clock: Clock) -> Answer:
    settings = get_settings()
    timeout = httpx.Timeout(settings.WEBHOOK_READ_SECONDS, connect=settings.WEBHOOK_CONNECT_SECONDS)
    # Plain: a few packed kilobytes may unpack to gigabytes.
    sent = {"accept": "*/*", "accept-encoding": "identity", "connection": "close", **headers}
    request = httpx.Request("POST", url, headers=sent, content=body, extensions={"timeout": timeout.as_dict()})
    # Not through a Client of httpx: it logs each URL, and that of many a receiver is a secret by itself.
    with _Transport(clock) as transport, contextlib.closing(transport.handle_request(request)) as response:
        return Answer(response.status_code, response.headers, _head(response))


def _head(response: httpx.Response) -> bytes:
    """Read no more than is kept. The status decides: a body that breaks off or drips does not change it."""
    data = b""
    with contextlib.suppress(httpx.TransportError):
        for piece in response.iter_raw():
            data += piece
            if len(data) >= EXCERPT_BYTES:
                break
    return data[:EXCERPT_BYTES]
