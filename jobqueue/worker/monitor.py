"""A worker's own HTTP port: whether it lives, whether it claims, and its figures; `runworker --metrics-port`.

A thread of the supervisor answers, and runs no code of the project. Health needs no database: a worker whose database
is away is alive, and restarting it would only cut its jobs off. The metrics are those of the whole queue, as far as the
database answers, and of this worker by its own account.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError
from jobqueue.ops.bearers import bearer_token, is_token
from jobqueue.ops.health import Check, Health
from jobqueue.ops.metrics import Collector, encoded, require_client

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from .supervisor import Supervisor

logger = logging.getLogger("jobqueue.worker")

#: The main loop looks around every second: after so long without it hangs.
LOOP_SECONDS: Final = 20.0
REQUEST_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5
MOST_READERS: Final = 2

Answer = tuple[int, bytes, str]


class Monitor:
    """The server of one worker, from its start to its end."""

    def __init__(self, worker: Supervisor, host: str, port: int) -> None:
        """Take the port at once. Raises ConfigurationError where it cannot be had, or nothing may be shown on it."""
        settings = get_settings()
        if settings.OPS_TOKEN is None and not settings.HEALTH_OPEN:
            msg = "--metrics-port needs JOBQUEUE['OPS_TOKEN'], which opens it, or HEALTH_OPEN for health alone: set one"
            raise ConfigurationError(msg)
        require_client()
        # This process makes no other connections by Django's own settings: those of its threads name all of theirs.
        database = connections.settings[worker.options.alias].setdefault("OPTIONS", {})
        database.setdefault("connect_timeout", CONNECT_SECONDS)
        database.setdefault("application_name", f"jobqueue monitor {worker.options.worker_id}"[:63])
        database.pop("pool", None)  # which would keep what a scrape has opened
        self._worker, self._started = worker, time.monotonic()
        self._readers = threading.BoundedSemaphore(MOST_READERS)
        try:
            self._server = _Server((host, port), self)
        except (OSError, OverflowError) as error:
            msg = f"--metrics-port {port} on {host}: {error}"
            raise ConfigurationError(msg) from error

    @property
    def port(self) -> int:
        """The port, which the system chose where 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        # It is never shut down, so it need not look for that twice a second: the process ends, and it with it.
        thread = threading.Thread(target=self._server.serve_forever, args=(3600,), name="jobqueue-monitor", daemon=True)
        thread.start()
        logger.info("monitor listens port=%s worker=%s", self.port, self._worker.options.worker_id)

    def answer(self, path: str, authorization: str, accept: str) -> Answer:
        """Return (status, body, content type) for a path."""
        token = bearer_token(authorization)
        known = token is not None and is_token(token)
        pages = {"/health/live": self.live, "/health/ready": self.ready}
        if path in pages and (known or get_settings().HEALTH_OPEN):
            health = pages[path]()
            return _as_json(200 if health.ok else 503, health.to_json(details=known))
        if path not in pages and path != "/metrics":
            return _as_json(404, {"error": "only /metrics, /health/live and /health/ready"})
        if not known:
            return _as_json(401, {"error": "send the token as Authorization: Bearer"})
        return self._metrics(accept)

    def live(self) -> Health:
        """Return whether the supervisor's main loop goes round; one that starts has until its first round."""
        age = self._loop_age()
        return Health((Check("loop", age is None or age < LOOP_SECONDS, _since("main loop", age)),))

    def ready(self) -> Health:
        """Return whether it claims: see Dispatch.claimed_at."""
        bound, age = get_settings().READY_CLAIM_SECONDS, self.claim_age()
        claims = Check("claims", age is not None and age <= bound, _since("claim loop", age))
        stopping = self._worker.shutdown.stopping
        return Health((*self.live().checks, claims, Check("serving", not stopping, "stops" if stopping else "serves")))

    def claim_age(self) -> float | None:
        """Return the seconds since the claim loop was last seen to be well, None before its first claim."""
        at = self._worker.dispatch.claimed_at
        return None if at is None else time.monotonic() - at

    def _loop_age(self) -> float | None:
        at = self._worker.looked_at
        return None if at is None else time.monotonic() - at

    def _metrics(self, accept: str) -> Answer:
        if not self._readers.acquire(blocking=False):
            return _as_json(503, {"error": "others read the metrics, and have no answer yet"})
        try:
            registry = require_client().CollectorRegistry()
            registry.register(self)
            registry.register(Collector(self._worker.options.alias))
            body, content_type = encoded(registry, accept)
            return 200, body, content_type
        finally:
            self._readers.release()
            connections.close_all()  # this thread's own: it ends with its answer

    # -- a collector of prometheus_client -------------------------------------------------------------------------

    def describe(self) -> list[Metric]:
        """Return nothing: there is no other collector that names could clash with."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what the worker knows of itself, also with its database away."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        worker = self._worker
        for name, text, value in (
            ("uptime_seconds", "Since this worker's start", time.monotonic() - self._started),
            ("slots", "Jobs that this worker runs at a time", worker.pool.slots),
            ("busy", "Jobs that this worker holds", len(worker.held)),
            ("loop_age_seconds", "Since this worker's main loop last went round", self._loop_age()),
            ("claim_age_seconds", "Since this worker's claim loop was last well", self.claim_age()),
            ("stopping", "Whether this worker stops", int(worker.shutdown.stopping)),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"jobqueue_process_{name}", text, value=value)
        yield CounterMetricFamily("jobqueue_process_attempts", "Attempts that ended here", value=worker.reports.ended)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], monitor: Monitor) -> None:
        self.monitor = monitor
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's own, which asks the name service for this host's name: that may take half a minute.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if isinstance(error, OSError):  # a client that went away, or said nothing
            logger.debug("monitor client failed error=%s", error)
        else:
            logger.error("monitor request failed", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS  # of a client that says nothing, or too slowly
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        authorization, accept = self.headers.get("Authorization", ""), self.headers.get("Accept", "")
        status, data, content_type = self.server.monitor.answer(path, authorization, accept)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        if status == 401:
            self.send_header("WWW-Authenticate", 'Bearer realm="jobqueue"')
        self.end_headers()
        if body:
            self.wfile.write(data)

    def version_string(self) -> str:
        return "jobqueue"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class has
        logger.debug("monitor %s", format % args)


def _as_json(status: int, value: dict[str, Any]) -> Answer:
    return status, json.dumps(value).encode(), "application/json"


def _since(what: str, age: float | None) -> str:
    return f"{what}: not yet" if age is None else f"{what} last well {age:.1f} s ago"
