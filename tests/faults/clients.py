"""Clients that enqueue all the time beside whatever a scenario does."""

import json
import subprocess
import sys
import threading
import time
from typing import Self

from django.db import connection, connections

from jobqueue.models import Job
from tests.worker.launching import ROOT


class Enqueuer(threading.Thread):
    """Enqueues one job after the other, on a connection of its own; as a context manager it runs within."""

    def __init__(self, *, pause: float = 0.005) -> None:
        super().__init__(daemon=True)
        self._pause, self._ended = pause, threading.Event()
        self.enqueued = 0
        self.longest = 0.0  # seconds that the slowest enqueue took
        self.errors: list[Exception] = []

    def run(self) -> None:
        """Enqueue until the end; an error ends it."""
        try:
            while not self._ended.wait(self._pause):
                began = time.monotonic()
                self.enqueue()
                self.longest = max(self.longest, time.monotonic() - began)
                self.enqueued += 1
        except Exception as error:
            self.errors.append(error)
        finally:
            connections.close_all()

    def enqueue(self) -> None:
        """Enqueue one job."""
        Job.objects.enqueue("probe.ok", {})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self.join(30)


class OldEnqueuer(Enqueuer):
    """The same as the first release does it, which names no column that came later."""

    def enqueue(self) -> None:
        """Enqueue one job."""
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobqueue_job (job_type, queue, priority, payload, payload_bytes, dedupe_key, owner,"
                " max_attempts) VALUES ('probe.ok', 'default', 100, '{}', 2, NULL, '', 3)"
            )


CODE = """
import sys, django
django.setup()
import json, time
from jobqueue.models import Job
keys, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
end, made, refused = time.monotonic() + seconds, 0, 0
while time.monotonic() < end:
    jobs = Job.objects.enqueue_many([{"job_type": "probe.ok", "dedupe_key": key} for key in keys])
    made += sum(job is not None for job in jobs)
    refused += sum(job is None for job in jobs)
print(json.dumps([made, refused]))
"""


class BulkEnqueuer:
    """A process of its own that enqueues the same keys, in the order given, again and again."""

    def __init__(self, environment: dict[str, str], keys: list[str], *, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, json.dumps(keys), str(seconds)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ends(self, *, within: float) -> tuple[int, int]:
        """Wait for its end; returns how many jobs it made and how many keys were held."""
        told, errors = self._process.communicate(timeout=within)
        assert self._process.returncode == 0, errors[-2000:]
        made, refused = json.loads(told)
        return made, refused
