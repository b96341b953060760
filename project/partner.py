"""A partner's HTTP server, as the demo needs one: it takes notifications of documents and answers with a receipt.

    python -m project.partner --port 8099

POST /notifications with JSON {"event": …, "path": …} answers 201 and {"receipt": n}; the same Idempotency-Key again
answers 200 and the first receipt. GET /notifications answers {"count": n}. Everything is kept in memory.
"""

import argparse
import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/notifications"
BODY_MAX_BYTES = 64 * 1024


class Partner(ThreadingHTTPServer):
    """The server and the receipts it has given."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Notifications)
        self._receipts: dict[str, int] = {}
        self._lock = threading.Lock()

    def receive(self, key: str) -> tuple[int, bool]:
        """Return the receipt for a notification, and whether it is new."""
        with self._lock:
            new = key not in self._receipts
            return self._receipts.setdefault(key, len(self._receipts) + 1), new

    def count(self) -> int:
        """Return how many notifications were received, repeated ones once."""
        with self._lock:
            return len(self._receipts)


class Notifications(BaseHTTPRequestHandler):
    """One request."""

    server: Partner
    timeout = 10  # a client that sends nothing more does not hold its thread for ever

    def do_GET(self) -> None:
        """Answer how many notifications there were."""
        if self.path == PATH:
            self._answer(HTTPStatus.OK, {"count": self.server.count()})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "unknown path"})

    def do_POST(self) -> None:
        """Take one notification."""
        if self.path != PATH:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "unknown path"})
        elif (key := self._notification_key()) is None:
            self._answer(
                HTTPStatus.BAD_REQUEST, {"error": "an Idempotency-Key, and JSON with event and path, are needed"}
            )
        else:
            receipt, new = self.server.receive(key)
            self._answer(HTTPStatus.CREATED if new else HTTPStatus.OK, {"receipt": receipt})

    def _notification_key(self) -> str | None:
        """Return the key of a well-formed notification, else None."""
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= BODY_MAX_BYTES:
                return None
            body = json.loads(self.rfile.read(length))
        except ValueError:
            return None
        well_formed = isinstance(body, dict) and all(isinstance(body.get(name), str) for name in ("event", "path"))
        return self.headers.get("Idempotency-Key") if well_formed else None

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(
        prog="python -m project.partner", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--port", type=int, default=8099)
    with Partner(parser.parse_args().port) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
