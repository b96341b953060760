"""A real HTTP server that webhooks are sent to: it keeps what it gets and answers as it is told."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Request:
    """What came in."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Answer:
    """What goes out; `drip` sends the body a byte at a time, with so many seconds before each."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    drip: float = 0
    endless: bool = False


Respond = Callable[[Request], Answer | None]


class Receiver(ThreadingHTTPServer):
    """Answers 200 "ok" unless told otherwise: a function of the request, or answers one after another.

    An answer of None closes the connection without a word.
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        self.respond: Respond = lambda _request: Answer()
        self.scheme = "http"
        self.sent_bytes = 0
        self.stopping = threading.Event()

    def answers(self, *answers: Answer | None) -> None:
        """Give these answers in order, the last one for ever."""
        left = list(answers)
        lock = threading.Lock()

        def next_one(_request: Request) -> Answer | None:
            with lock:
                return left.pop(0) if len(left) > 1 else left[0]

        self.respond = next_one

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        """Return the URL of a path."""
        return f"{self.scheme}://{host}:{self.server_port}{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients that go away are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.requests.append(request)
        answer = self.server.respond(request)
        if answer is None:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if not answer.endless:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self._write(answer)

    def _write(self, answer: Answer) -> None:
        if answer.endless:
            while not self.server.stopping.is_set():
                self.wfile.write(answer.body)
                self.server.sent_bytes += len(answer.body)
        elif answer.drip:
            for number in range(len(answer.body)):
                self.server.stopping.wait(answer.drip)
                self.wfile.write(answer.body[number : number + 1])
        else:
            self.wfile.write(answer.body)

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def receiver(certificate: Path | None = None) -> Iterator[Receiver]:
    """Serve until the block ends; with a file of certificate and key, by TLS."""
    server = Receiver()
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def dripping(seconds: float = 0.2) -> Iterator[int]:
    """Listen at a port, and answer each connection with a status line and headers, a byte at a time."""
    stopping = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65_536)
                        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 10_000:
                            if stopping.wait(seconds):
                                return
                            connection.sendall(bytes([byte]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            stopping.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
