"""A worker's own port, and what health says of a worker that hangs, is busy, stops, or has lost its database."""

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.db import connection
from prometheus_client.parser import text_string_to_metric_families

from jobqueue.models import Job, Worker
from jobqueue.ops import health
from jobqueue.states import Status
from tests.connections import SecondConnection

from . import processes
from .effects import Effects
from .forwarder import Forwarder
from .kinds import Enqueue, Launch, WaitFor
from .launching import RunningWorker
from .waiting import holds_for, until

TOKEN = "a-token-of-thirty-two-characters"
BOUND = 5


class Answered(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]

    @property
    def checks(self) -> dict[str, bool]:
        return {check["name"]: check["ok"] for check in json.loads(self.text)["checks"]}


Ask = Callable[..., Answered]


def port_of(worker: RunningWorker) -> int:
    worker.says("monitor listens port=")
    found = re.search(r"monitor listens port=(\d+)", worker.log)
    assert found
    return int(found[1])


def get(worker: RunningWorker, path: str, *, token: str | None = TOKEN, method: str = "GET") -> Answered:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port_of(worker)}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return Answered(answer.status, answer.read().decode(), dict(answer.headers))
    except urllib.error.HTTPError as error:
        return Answered(error.code, error.read().decode(), dict(error.headers))


@pytest.fixture
def monitored(launch: Launch) -> Launch:
    """Return the function that starts a worker with a port of its own."""

    def launch_one(*arguments: str, **settings: Any) -> RunningWorker:
        wanted = {"OPS_TOKEN": TOKEN, "READY_CLAIM_SECONDS": BOUND, "LEASE_SECONDS": 20} | settings
        return launch("--metrics-port", "0", *arguments, **wanted)

    return launch_one


def samples(text: str) -> dict[str, float]:
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def test_the_port_serves_health_and_metrics_to_the_token_alone(
    monitored: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    worker = monitored()
    wait_for(enqueue("ok"))

    until(lambda: get(worker, "/health/ready").status == 200)
    assert get(worker, "/health/live").checks == {"loop": True}
    assert get(worker, "/health/ready").checks == {"loop": True, "claims": True, "serving": True}
    metrics = get(worker, "/metrics")
    assert metrics.headers["Cache-Control"] == "no-store"
    assert samples(metrics.text)["jobqueue_process_attempts_total"] == 1
    assert samples(metrics.text)["jobqueue_up"] == 1
    for page in ("/metrics", "/health/live", "/health/ready"):
        assert [get(worker, page, token=token).status for token in (None, "another", TOKEN + "x")] == [401] * 3
        assert get(worker, page, method="HEAD").text == ""
        assert get(worker, page, method="POST").status == 501
    assert get(worker, "/elsewhere").status == 404


def test_open_health_is_open_on_the_port_too(monitored: Launch) -> None:
    worker = monitored(HEALTH_OPEN="on")

    answer = get(worker, "/health/live", token=None)

    assert (answer.status, json.loads(answer.text)["checks"]) == (200, [{"name": "loop", "ok": True}])
    assert get(worker, "/metrics", token=None).status == 401


def test_a_port_that_nobody_may_read_is_refused(launch: Launch) -> None:
    worker = launch("--metrics-port", "0", wait=False)

    assert worker.ends() == 2
    assert "--metrics-port needs JOBQUEUE['OPS_TOKEN']" in worker.log


def test_a_port_that_is_taken_is_said_in_one_line(launch: Launch, monitored: Launch) -> None:
    first = monitored()

    second = launch("--metrics-port", str(port_of(first)), wait=False, OPS_TOKEN=TOKEN)

    assert second.ends() == 2
    assert "Address already in use" in second.log


def ready_checks() -> dict[str, bool]:
    return {check.name: check.ok for check in health.ready(connection.alias).checks}


def test_a_worker_whose_claims_hang_turns_red_while_it_beats_and_heals_by_itself(
    monitored: Launch, enqueue: Enqueue, wait_for: WaitFor, second_connection: SecondConnection, settings: Any
) -> None:
    """C74: a lock on the whole table; the claim's own time limit is what ends it."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "READY_CLAIM_SECONDS": BOUND}
    worker = monitored()
    wait_for(enqueue("ok"))
    until(lambda: get(worker, "/health/ready").status == 200 and ready_checks()["claims"])

    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")
    began = time.monotonic()
    until(lambda: get(worker, "/health/ready").status == 503, within=2 * BOUND)
    until(lambda: not ready_checks()["claims"], within=2 * BOUND)

    assert time.monotonic() - began > BOUND - 2
    row = Worker.objects.get()
    _, seen = health.worker_health(connection.alias, worker_id=row.worker_id, live_only=True).checks
    assert seen.ok, seen
    assert get(worker, "/health/ready").checks == {"loop": True, "claims": False, "serving": True}
    assert get(worker, "/health/live").status == 200
    second_connection.rollback()
    until(lambda: get(worker, "/health/ready").status == 200, within=15)
    until(lambda: ready_checks()["claims"], within=15)
    wait_for(enqueue("ok"))


def test_a_worker_busy_with_long_jobs_stays_green(
    monitored: Launch, enqueue: Enqueue, effects: Effects, settings: Any
) -> None:
    """C74: it has no room, so it claims nothing; that is no fault."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "READY_CLAIM_SECONDS": BOUND}
    worker = monitored("--processes", "1")
    job = enqueue("mark", seconds=BOUND + 4)
    enqueue("ok")
    effects.wait("start", job_id=job.pk)

    holds_for(BOUND + 2, lambda: get(worker, "/health/ready").checks["claims"] and ready_checks()["claims"])

    assert Job.objects.get(pk=job.pk).status == Status.RUNNING


@pytest.mark.faults
def test_a_worker_that_waits_for_the_next_poll_stays_green(monitored: Launch, enqueue: Enqueue) -> None:
    worker = monitored(POLL_SECONDS=60)
    until(lambda: get(worker, "/health/ready").status == 200)

    holds_for(BOUND + 2, lambda: get(worker, "/health/ready").status == 200)


@pytest.mark.faults
def test_a_blocked_claim_connection_turns_red(
    monitored: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    proxy: Forwarder,
    through_proxy: dict[str, str],
) -> None:
    """C74: no FIN, and all other connections are well."""
    proxy.open()
    worker = monitored(env=through_proxy)
    wait_for(enqueue("ok"))

    proxy.blackhole("jobqueue dispatch")

    until(lambda: not get(worker, "/health/ready").checks["claims"], within=2 * BOUND)
    assert get(worker, "/health/live").status == 200
    proxy.pass_on()
    until(lambda: get(worker, "/health/ready").status == 200, within=20)


@pytest.mark.faults
def test_with_its_database_away_a_worker_lives_and_its_own_metrics_are_there(
    monitored: Launch, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """A restart would help nothing: C162."""
    proxy.open()
    worker = monitored(env=through_proxy)
    until(lambda: get(worker, "/health/ready").status == 200)

    proxy.shut()

    until(lambda: get(worker, "/health/ready").status == 503, within=2 * BOUND)
    found = samples(get(worker, "/metrics").text)
    assert (found["jobqueue_up"], found["jobqueue_process_slots"]) == (0, 2)
    assert found["jobqueue_process_claim_age_seconds"] > BOUND
    assert "jobqueue_jobs" not in found
    assert get(worker, "/health/live").status == 200


@pytest.mark.faults
def test_a_stopping_worker_lives_and_is_not_ready(monitored: Launch, enqueue: Enqueue, effects: Effects) -> None:
    worker = monitored()
    enqueue("mark", seconds=4)
    effects.wait("start")

    worker.stop()

    until(lambda: get(worker, "/health/ready").status == 503)
    assert get(worker, "/health/ready").checks == {"loop": True, "claims": True, "serving": False}
    assert get(worker, "/health/live").status == 200
    assert worker.ends() == 0


def test_a_worker_that_waits_for_its_database_lives(
    monitored: Launch, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """C162."""
    worker = monitored(wait=False, env=through_proxy)
    worker.says("waiting for the database", within=20)

    assert get(worker, "/health/live").status == 200
    assert get(worker, "/health/ready").checks == {"loop": True, "claims": False, "serving": True}
    proxy.open()
    until(lambda: get(worker, "/health/ready").status == 200, within=20)


def test_an_idle_port_takes_no_processor_time(monitored: Launch) -> None:
    worker = monitored(POLL_SECONDS=60, MAINTENANCE_SECONDS=60)
    until(lambda: get(worker, "/health/ready").status == 200)
    before = processes.cpu_seconds(worker.pid)

    holds_for(2, lambda: worker.code is None)

    assert processes.cpu_seconds(worker.pid) - before < 0.3
