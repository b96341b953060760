"""The course of the demo, from an empty database to the closing line."""

import logging
import os
import secrets
import signal
import threading
import time
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command

from jobqueue.models import Job
from project.samples import Samples, make_samples

from .processes import Processes, free_port
from .scene import set_scene, told
from .telling import Teller, cost_line, counts_line, is_settled
from .work import Visitor, enqueue

PARTNER_AFTER_SECONDS = 8.0
WEB = ("manage.py", "runserver", "--noreload", "--insecure")  # insecure: serves static files without DEBUG
WORKER = ("manage.py", "runworker", "--queues", "*", "--processes", "2")
WORKERS = {"worker": WORKER, "spare": (*WORKER[:-1], "3", "--name", "spare")}
# In good order, or with jobs cut off: what a worker ends with that somebody drained or stopped from the console.
ENDED_AS_TOLD = (0, 3)
# Retries and the end of a run are to be seen within half a minute.
WORKER_ENVIRONMENT = {"JOBQUEUE_BACKOFF_BASE_SECONDS": "1", "JOBQUEUE_SHUTDOWN_TIMEOUT": "5"}


class Demo:
    """One run; `limit` is in seconds, None for until stopped."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.teller = Teller()
        self.stopped = threading.Event()
        self.processes = Processes(settings.DEMO_HOME / "logs")
        self.partner_port = free_port(0, 0)
        self.web_port = free_port(int(os.environ.get("DEMO_PORT", "8000")))
        self.password = os.environ.get("DEMO_PASSWORD") or secrets.token_urlsafe(9)
        self.releases: list[str] = []
        self.submitted = False
        self.partner_up = False
        self.was_settled = self.has_scene = False

    @property
    def url(self) -> str:
        """The address of the web server."""
        return f"http://localhost:{self.web_port}"

    def run(self) -> int:
        """Run the demo to its end and return the exit status; nothing it started is left running."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self.stopped.set())
        try:
            self._prepare()
            failure = self._watch()
            self.processes.stop(*WORKERS)
            self._close(failure)
        finally:
            self.processes.stop()
        return 1 if failure else 0

    def _prepare(self) -> None:
        say = self.teller.say
        say(f"database {settings.DATABASES['default']['NAME']}: migrating")
        call_command("migrate", verbosity=0)
        get_user_model().objects.create_superuser("admin", password=self.password)
        self.processes.start("web", *WEB, f"localhost:{self.web_port}", PARTNER_URL=self._partner_url())
        say("samples: made once, then kept")
        samples = make_samples(settings.DEMO_HOME / "samples")
        say(f"{enqueue(samples)} jobs enqueued by Job.objects.enqueue_many()")
        self._start_worker("worker")
        say(f"worker started, its log: {self.processes.log_of('worker')}")
        say(f"admin: {self.url}/admin/   user: admin   password: {self.password}")
        say(f"form:  {self.url}/")
        say("the partner's server is down for now, so partner.notify will fail and be retried")

    def _start_worker(self, name: str) -> None:
        release = {"JOBQUEUE_RELEASE": f"demo-{len(self.releases) + 1}"}
        self.releases.append(name)
        self.processes.start(name, *WORKERS[name], PARTNER_URL=self._partner_url(), **WORKER_ENVIRONMENT, **release)

    def _partner_url(self) -> str:
        return f"http://127.0.0.1:{self.partner_port}/notifications"

    def _watch(self) -> str:
        """Look once a second until the end; return what went wrong, or nothing."""
        visitor = Visitor(self.url)
        while not self.stopped.is_set() and not self._is_over():
            self._restart_workers()
            if ended := self.processes.ended():
                return "\n".join(ended)
            self._start_partner()
            self._use_form(visitor)
            settled = is_settled(self.teller.look()) and self.submitted
            if settled and self.limit is not None:
                break
            if settled and not self.was_settled:
                self.teller.say(f"all settled; the admin stays at {self.url}/admin/ until Ctrl-C")
            self.was_settled = settled
            if settled and not self.has_scene:
                self._set_scene()
            self.stopped.wait(1)
        return ""

    def _set_scene(self) -> None:
        """Give whoever stays something of everything to try in the console."""
        self.has_scene = True
        self.teller.say("some more jobs for the console: a minute at most")
        self._start_worker("spare")
        set_scene(self.password, self.stopped.wait)
        self.teller.look()
        for line in told(self.url, self.password):
            self.teller.say(line)

    def _restart_workers(self) -> None:
        """Start those again that were drained or stopped from the console, as a service manager would."""
        for name in WORKERS if self.has_scene else ():
            if self.processes.exit_code(name) in ENDED_AS_TOLD:
                self.teller.say(f"the worker {name} ended as it was told; it is started again")
                self.processes.stop(name)
                self._start_worker(name)

    def _elapsed(self) -> float:
        return time.monotonic() - self.teller.started

    def _is_over(self) -> bool:
        return self.limit is not None and self._elapsed() >= self.limit

    def _start_partner(self) -> None:
        if not self.partner_up and self._elapsed() >= PARTNER_AFTER_SECONDS:
            self.partner_up = True
            self.processes.start("partner", "-m", "project.partner", "--port", str(self.partner_port))
            self.teller.say("the partner's server is up now")

    def _use_form(self, visitor: Visitor) -> None:
        """Submit a folder as a person would, once the web server answers."""
        if self.submitted or not visitor.is_served():
            return
        visitor.log_in(self.password)
        page = visitor.submit(Samples(settings.DEMO_HOME / "samples").pictures)
        self.submitted = True
        self.teller.say(f"the form enqueued a folder from a request: {page}")

    def _close(self, failure: str) -> None:
        self.teller.look()
        self.teller.say(cost_line())
        if failure:
            self.teller.say(failure)
        self.processes.stop()
        print(counts_line(Job.objects.counts(cap=None)), flush=True)


def run(limit: str) -> int:
    """Run the demo for a number of seconds, or until stopped when there is none."""
    os.chdir(Path(settings.BASE_DIR))
    # Their remarks would hide what the demo tells; the worker logs them.
    for library in ("httpx", "pypdf", "jobqueue.operations"):
        logging.getLogger(library).setLevel(logging.ERROR)
    return Demo(float(limit) if limit else None).run()
