"""What the demo enqueues: by the public API from here, and by the form of the running web server."""

import os
import sysconfig
from datetime import timedelta
from itertools import islice
from pathlib import Path

import httpx
from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from jobqueue.models import Job
from project.documents.collecting import SUFFIXES, files_of, index_jobs
from project.documents.tasks import find_duplicates
from project.samples import Samples

FOUND_MAX = 220
NOTIFICATIONS = 12
SEARCHES = 8
PLAIN_MAX_BYTES = 4_000
DUPLICATES_AFTER_SECONDS = 6


def chosen_documents() -> list[Path]:
    """Return the documents of DEMO_FOLDER or, without it, the repository's own."""
    if folder := os.environ.get("DEMO_FOLDER"):
        return list(files_of(Path(folder).resolve()))
    return [*settings.BASE_DIR.glob("*.md"), *files_of(settings.BASE_DIR / "docs")]


def found_documents() -> list[Path]:
    """Return real files that this machine has anyway: PDFs and pictures first, and no more than FOUND_MAX."""
    places = [Path("/usr/share/doc"), Path(sysconfig.get_path("purelib"))]
    files = [
        file for place in places for file in islice(files_of(place), 20_000) if file.suffix.lower() in SUFFIXES - {""}
    ]
    return sorted(files, key=_rank)[:FOUND_MAX]


def _rank(file: Path) -> tuple[int, str]:
    common = (".txt", ".gz", ".md", ".rst", ".html")
    return (1 + common.index(file.suffix.lower()) if file.suffix.lower() in common else 0, str(file))


def enqueue(samples: Samples) -> int:
    """Enqueue everything but the form's share, and return how many jobs these are."""
    documents = dict.fromkeys([*chosen_documents(), *samples.odd, *samples.reports, *found_documents()])
    plain = [file for file in documents if file.suffix in (".txt", ".md") and file.stat().st_size <= PLAIN_MAX_BYTES]
    jobs = [
        *(
            {"job_type": "partner.notify", "payload": {"event": "received", "path": str(file)}}
            for file in samples.reports[:NOTIFICATIONS]
        ),
        *(
            {"job_type": "documents.search", "payload": _search(file, "permision is granted")}
            for file in plain[:SEARCHES]
        ),
        {"job_type": "documents.search", "payload": _search(samples.log, "GET /permit/unknown 500")},
        {"job_type": "documents.native_crash", "payload": {"path": str(samples.reports[0])}},
        *index_jobs(documents),
    ]
    # Looks at what the others have stored by then.
    find_duplicates.using(run_after=timezone.now() + timedelta(seconds=DUPLICATES_AFTER_SECONDS)).enqueue()
    return 1 + sum(job is not None for job in Job.objects.enqueue_many(jobs))


def _search(file: Path, phrase: str) -> dict[str, str]:
    return {"path": str(file), "phrase": phrase}


class Visitor:
    """A person with a browser: logs in and uses the form."""

    def __init__(self, base_url: str) -> None:
        self._client = httpx.Client(base_url=base_url, follow_redirects=True, timeout=20)

    def is_served(self) -> bool:
        """Tell whether the web server answers yet."""
        try:
            return self._client.get(reverse("admin:login")).is_success
        except httpx.TransportError:
            return False

    def log_in(self, password: str) -> None:
        """Log in as the admin user."""
        self._post(reverse("admin:login"), {"username": "admin", "password": password, "next": "/"})

    def submit(self, path: Path) -> str:
        """Have a file or folder indexed by the form, and return the address of the submission's page."""
        return str(self._post(reverse("documents:submit"), {"path": str(path)}).url)

    def _post(self, address: str, data: dict[str, str]) -> httpx.Response:
        self._client.get(address)
        token = self._client.cookies["csrftoken"]
        return self._client.post(address, data={**data, "csrfmiddlewaretoken": token}).raise_for_status()
