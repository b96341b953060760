"""Fixtures of the example project's tests: made documents, a running partner, handlers called as a worker does."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jobqueue.children.context import Context
from jobqueue.children.protocol import Work
from jobqueue.managers import CostLine
from jobqueue.models import Job
from jobqueue.registry import registry
from project.partner import Partner
from project.samples import Samples, make_samples
from tests.connections import database_conninfo


@dataclass
class Reports:
    """What a handler reported."""

    costs: list[CostLine] = field(default_factory=list)
    percents: list[float] = field(default_factory=list)

    def cost(self, work: Work, line: CostLine) -> None:
        self.costs.append(line)

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        self.percents.append(value["percent"])

    def cancelled(self, work: Work) -> bool:
        return False


@dataclass
class Run:
    """One claimed job and what its handler gets."""

    job: Job
    reports: Reports

    @property
    def context(self) -> Context:
        job = self.job
        text = json.dumps(job.payload)
        work = Work(
            job.pk, job.lease_epoch, job.job_type, job.queue, job.attempts, job.max_attempts, job.payload_bytes, text
        )
        return Context(work, job.worker_id or "", self.reports)

    def call(self) -> Any:
        return registry.get(self.job.job_type).func(self.context, **self.job.payload)


@pytest.fixture
def claimed(db: None) -> Callable[..., Run]:
    """Return a function that enqueues a job and claims it, as a worker would."""

    def claim_one(job_type: str, **payload: Any) -> Run:
        job = Job.objects.enqueue(job_type, payload)
        assert job is not None
        [mine] = Job.objects.claim(worker_id="worker-1", queues=[job.queue])
        return Run(mine, Reports())

    return claim_one


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Return the demo's documents."""
    return make_samples(tmp_path_factory.mktemp("demo") / "samples")


@pytest.fixture
def partner() -> Iterator[Partner]:
    """Return a partner that serves on a free port."""
    with Partner(0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """Return an empty folder from which people may have documents indexed."""
    settings.DOCUMENT_ROOTS = [str(tmp_path)]
    return tmp_path


@pytest.fixture
def demo_url(worker_env: dict[str, str]) -> Iterator[str]:
    """Return the URL of the test database, and delete the demo's beside it afterwards."""
    yield worker_env["DATABASE_URL"]
    with psycopg.connect(database_conninfo(), autocommit=True) as connection:
        name = worker_env["DATABASE_URL"].rpartition("/")[2]
        connection.execute(f'DROP DATABASE IF EXISTS "{name}_demo"')
