"""Bad networks: half-open connections of one role alone, partitions, latency, storms of resets."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from jobqueue.models import Attempt, Job, Worker
from jobqueue.states import Status
from tests.worker.effects import Effects
from tests.worker.forwarder import Forwarder
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.launching import RunningWorker
from tests.worker.test_outcomes import finished
from tests.worker.test_waking import started_after
from tests.worker.waiting import holds_for, until

from .measured import Recovery

POLL, PROBED_WITHIN = 30, 30
STATEMENT_TIMEOUT, ANSWER_MARGIN, LOOK, PAUSE = 2, 3, 1, 0.2
CUT_WITHIN = STATEMENT_TIMEOUT + ANSWER_MARGIN + LOOK + PAUSE
LONG_JOB = 13  # longer than it takes to notice a half-open heartbeat
LOST = "lost its connection"


def sleeps() -> bool:
    """Tell whether a worker has marked itself idle."""
    return Worker.objects.filter(idle_since__isnull=False).exists()


def test_a_half_open_listener_notices_by_itself(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    recovery: Recovery,
) -> None:
    """C60: nothing comes to the listener alone; jobs start by the poll, hints come again, one line tells of it."""
    proxy.open()
    worker = launch("--processes", "1", LEASE_SECONDS=60, POLL_SECONDS=POLL, env=through_proxy)
    until(sleeps)
    assert started_after(wait_for(enqueue("ok"), within=3)) < 0.3

    proxy.blackhole("jobqueue listener", to_come=False)
    cut_at = time.monotonic()
    jobs = []
    while LOST not in worker.log:
        jobs.append(enqueue("ok"))
        holds_for(2, lambda: time.monotonic() - cut_at < PROBED_WITHIN + 5, what=worker.log)
    recovery("a half-open listener noticed", time.monotonic() - cut_at, within=PROBED_WITHIN)

    assert max(started_after(job) for job in finished(jobs, within=POLL)) <= POLL
    until(lambda: sleeps() and f"jobqueue listener {worker.worker_id}" in proxy.connections(), what=worker.log)
    recovery(
        "wait for a hint afterwards",
        max(started_after(wait_for(enqueue("ok"), within=5)) for _ in range(5)),
        within=0.3,
    )
    lines = [line for line in worker.log.splitlines() if "listener" in line]
    assert len(lines) == 1, worker.log
    assert "no answer" in lines[0]


@pytest.fixture
def half_opened(
    launch: Launch, enqueue: Enqueue, proxy: Forwarder, through_proxy: dict[str, str], recovery: Recovery
) -> Callable[..., RunningWorker]:
    """Return the function that makes one role's connection half open while jobs run, until they are done."""
    settings = {"LEASE_SECONDS": 20, "STATEMENT_TIMEOUT": STATEMENT_TIMEOUT, "env": through_proxy}

    def run(
        role: str, break_it: Callable[[str], None], jobs: Callable[[], list[Job]], within: float = 2 * CUT_WITHIN
    ) -> RunningWorker:
        proxy.open()
        worker = launch("--processes", "2", **settings)
        finished([enqueue("ok") for _ in range(5)])
        made = jobs()
        break_it(f"jobqueue {role}")
        broken_at = time.monotonic()

        done = finished(made + [enqueue("mark") for _ in range(20)], within=within)

        recovery(f"all done with a half-open {role}", time.monotonic() - broken_at, within=within)
        until(lambda: f"jobqueue {role} {worker.worker_id}" in proxy.connections())
        assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
        assert not Attempt.objects.exists()
        return worker

    return run


def starts(effects: Effects) -> list[int]:
    """Return the job of each start of a handler."""
    return sorted(row.job_id for row in effects.all("start"))


@pytest.mark.parametrize(
    ("role", "heard"),
    [("dispatch", False), ("dispatch", True), ("settle", False), pytest.param("settle", True, marks=pytest.mark.short)],
)
def test_a_half_open_connection_of_one_role_is_replaced(
    half_opened: Callable[..., RunningWorker], proxy: Forwarder, effects: Effects, role: str, heard: bool
) -> None:
    """C74: no claim and no end is lost with its connection, or done twice, whether the server heard of it or not."""

    def break_it(only: str) -> None:
        proxy.drop_answers(only) if heard else proxy.blackhole(only, to_come=False)

    worker = half_opened(role, break_it, list)

    assert len(starts(effects)) == len(set(starts(effects))) == 20
    assert worker.log.count(f"role=jobqueue {role}") == 1, worker.log


def test_a_half_open_heartbeat_costs_no_lease(
    half_opened: Callable[..., RunningWorker], enqueue: Enqueue, effects: Effects, proxy: Forwarder
) -> None:
    """C74: renewals go out again well before the leases end; no job is stopped."""

    def begun() -> list[Job]:
        long = enqueue("mark", seconds=LONG_JOB)
        effects.wait("start", job_id=long.pk)
        return [long]

    worker = half_opened("lease", lambda only: proxy.blackhole(only, to_come=False), begun, within=LONG_JOB + 5)

    assert starts(effects) == sorted(set(starts(effects)))
    assert worker.log.count("no answer") == worker.log.count("heartbeat failed") == 1, worker.log


def test_a_half_open_maintenance_promotes_again(
    half_opened: Callable[..., RunningWorker], enqueue: Enqueue, proxy: Forwarder
) -> None:
    """C74: scheduled jobs start when its connection has been replaced."""

    def scheduled() -> list[Job]:
        return [enqueue("ok", _run_after=timedelta(seconds=1)) for _ in range(3)]

    half_opened("maintenance", lambda only: proxy.blackhole(only, to_come=False), scheduled)


def ages() -> tuple[float, float]:
    """Return the seconds since the worker's last heartbeat and since its last good claim."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM clock_timestamp() - heartbeat_at),"
            " extract(epoch FROM clock_timestamp() - claimed_at) FROM jobqueue_worker"
        )
        heartbeat, claim = cursor.fetchone()
        return float(heartbeat), float(claim)


def test_a_blocked_claim_connection_shows_as_an_old_claim(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    recovery: Recovery,
) -> None:
    """C74: claims hang, also on new connections; the worker beats on, its last claim grows old, then all is well."""
    proxy.open()
    worker = launch("--processes", "1", LEASE_SECONDS=20, env=through_proxy)
    wait_for(enqueue("ok"))
    until(lambda: Worker.objects.get().claimed_at is not None)

    proxy.blackhole("jobqueue dispatch")
    job = enqueue("ok")
    until(lambda: ages()[1] > 8, within=15, what=lambda: f"an old claim: {ages()}")
    assert ages()[0] < 5
    assert Job.objects.get(pk=job.pk).status == Status.PENDING
    proxy.pass_on()

    back_at = time.monotonic()
    wait_for(job)
    recovery("claims again after a blocked connection", time.monotonic() - back_at, within=10)
    until(lambda: ages()[1] < 3, within=15, what=lambda: f"a young claim: {ages()}")
    assert worker.code is None


def test_a_partitioned_worker_stops_its_jobs_and_goes_on_later(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    recovery: Recovery,
) -> None:
    """C36: one worker of three is cut off for its lease and 6 s: its runs end before those of others begin."""
    lease, slots = 5, 2
    proxy.open()
    cut_off = launch("--processes", str(slots), LEASE_SECONDS=lease, env=through_proxy)
    jobs = [enqueue("step_loop", seconds=20, every=0.5) for _ in range(slots)]
    effects.wait("step", times=slots)
    others = [launch("--processes", str(slots), LEASE_SECONDS=lease, wait=False) for _ in range(2)]
    for worker in others:
        worker.ready()
    short = [enqueue("mark", seconds=0.2) for _ in range(20)]

    proxy.blackhole()
    ends = {job.pk: Job.objects.get(pk=job.pk).lease_until for job in jobs}
    holds_for(lease + 6, lambda: cut_off.code is None)
    proxy.pass_on()
    back_at = time.monotonic()

    until(lambda: f"jobqueue dispatch {cut_off.worker_id}" in proxy.connections(), within=10)
    recovery("a partitioned worker is back", time.monotonic() - back_at, within=2 * 5)
    for job in jobs:
        done = wait_for(job, within=40)
        assert (done.status, done.attempts) == (Status.DONE, 2)
        assert done.worker_id in {worker.worker_id for worker in others}
        one, other = ([row.at for row in effects.all("step", job_id=job.pk) if row.lease_epoch == n] for n in (1, 2))
        assert max(one) < ends[job.pk] <= min(other)
    assert {job.attempts for job in finished(short)} == {1}
    assert cut_off.log.count("lost lease") == slots
    for worker in others:
        worker.stop()
        worker.ends()
    assert wait_for(enqueue("ok")).worker_id == cut_off.worker_id


def test_every_statement_may_take_more_than_a_second(
    launch: Launch,
    enqueue: Enqueue,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    recovery: Recovery,
) -> None:
    """C36, by latency: 1.2 s there and back, also for connecting; leases hold, every job runs once."""
    round_trip, lease = 1.2, 15
    patient = {"DATABASE_URL": f"{through_proxy['DATABASE_URL']}?connect_timeout=20"}
    proxy.open()
    workers = [
        launch("--processes", "2", LEASE_SECONDS=lease, STATEMENT_TIMEOUT=5, MAINTENANCE_SECONDS=1, env=patient)
        for _ in range(2)
    ]

    proxy.delay(round_trip / 2)
    proxy.reset()
    slow_at = time.monotonic()
    long = [enqueue("mark", seconds=lease + 3) for _ in range(2)]
    jobs = [enqueue("mark", seconds=0.1) for _ in range(24)] + [enqueue("orm") for _ in range(6)]
    done = finished(jobs + long, within=75)

    recovery("30 short jobs and two of 18 s, at 1.2 s a round trip", time.monotonic() - slow_at, within=75)
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    assert len(starts(effects)) == len(set(starts(effects))) == 26
    assert not Attempt.objects.exists()
    assert all("lost lease" not in worker.log for worker in workers)


def test_resets_in_a_row_lose_and_double_nothing(
    launch: Launch,
    enqueue: Enqueue,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
    recovery: Recovery,
) -> None:
    """C25: each second all connections of two workers are reset, ten times, under load; each job runs once."""
    proxy.open()
    workers = [launch("--processes", "2", LEASE_SECONDS=20, env=through_proxy) for _ in range(2)]
    jobs = [enqueue("mark", seconds=2) for _ in range(4)]

    for _ in range(10):
        jobs += [enqueue("mark", seconds=0.02) for _ in range(20)]
        proxy.reset()
        holds_for(1, lambda: all(worker.code is None for worker in workers))
    over_at = time.monotonic()

    done = finished(jobs, within=30)
    recovery("all done after a storm of resets", time.monotonic() - over_at, within=10)
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    assert starts(effects) == sorted(job.pk for job in jobs)
