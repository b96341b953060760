"""Time limits and isolation levels that the project or its administrator has set for other reasons."""

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.states import Status
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import until

from .load import account, complaints, loaded

SHORT_LIMITS = {
    "statement_timeout": "300ms",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "300ms",
    "idle_session_timeout": "1s",
}
NEWER_LIMITS = {"transaction_timeout": "300ms"}
ROLE = "limited"
# Each claim, settle and renewal takes longer than the limits above.
SLOW_CHANGES = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON jobqueue_job FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""
CONNECTED = "SELECT pid FROM pg_stat_activity WHERE application_name ~ 'jobqueue (dispatch|lease|listener|maint)'"


@pytest.mark.parametrize(
    "version",
    [pytest.param(18, marks=pytest.mark.server(version=18)), pytest.param(15, marks=pytest.mark.server(version=15))],
)
def test_short_time_limits_of_the_role_are_not_the_workers(
    version: int,
    server: PrivateServer,
    worker_env: dict[str, str],
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
) -> None:
    """C25, C74: ALTER ROLE ... SET statement_timeout and its like end none of its connections and no claim."""
    server.create_role(ROLE, "SUPERUSER LOGIN")
    limits = SHORT_LIMITS | (NEWER_LIMITS if version > 15 else {})
    for name, value in limits.items():
        server.execute(f"ALTER ROLE {ROLE} SET {name} = '{value}'")
    worker = launch("--processes", "2", LEASE_SECONDS=60, POLL_SECONDS=30, env={"DATABASE_URL": server.url(user=ROLE)})
    wait_for(enqueue("ok"))
    pids = until(lambda: rows if len(rows := server.execute(CONNECTED)) == 4 else None)
    server.execute(SLOW_CHANGES)
    long = wait_for(enqueue("mark", seconds=3))
    server.execute("DROP FUNCTION slow CASCADE")

    assert server.execute(CONNECTED) == pids, worker.log
    with loaded() as load:  # of the first job the listener is told, or it would wait for the poll
        load.goes_on()
    account(load, effects=effects, other=[long, *Job.objects.filter(job_type="probe.ok")])
    assert complaints(worker) == []
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("how", ["the database's default", "Django's OPTIONS"])
def test_repeatable_read_as_the_projects_default(
    how: str, server: PrivateServer, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C25: two workers that contend for the same rows, failing jobs, retries and cancels: no serialization failure."""
    env = {}
    if how == "Django's OPTIONS":
        env["PROBE_ISOLATION"] = "REPEATABLE_READ"
    else:
        server.execute("ALTER DATABASE jobqueue SET default_transaction_isolation = 'repeatable read'")
    workers = [launch("--processes", "2", env=env) for _ in range(2)]

    with loaded(every=0.01) as load, loaded("probe.orm", every=0.02) as orm:
        dead = enqueue("boom", _max_attempts=2)
        completed = enqueue("complete", name="group")
        made = [job for job in Job.objects.enqueue_many([("probe.ok", {})] * 300) if job]
        running = enqueue("sleep", seconds=30)
        wait_for(running, Status.RUNNING)
        Job.objects.cancel(running.pk)
        wait_for(running, Status.CANCELLED)
        wait_for(dead, Status.DEAD)
        wait_for(completed)
        load.goes_on(jobs=100)

    unwanted = Job.objects.filter(pk__in=[running.pk, dead.pk])
    assert sorted(unwanted.values_list("status", flat=True)) == [Status.DEAD, Status.CANCELLED]
    assert set(Attempt.objects.values_list("job_id", flat=True)) <= {running.pk, dead.pk}
    unwanted.delete()
    until(lambda: not Job.objects.filter(job_type="jobqueue.notify").exclude(status=Status.DONE).exists())
    account(load, orm, effects=effects, other=[completed, *made, *Job.objects.filter(job_type="jobqueue.notify")])
    for worker in workers:
        assert complaints(worker) == []
    assert "could not serialize" not in server.log_text
