"""Workers whose every connection is encrypted: one that two processes share would be broken at once."""

from datetime import timedelta

import pytest
from django.db import connection

from jobqueue.models import Job
from jobqueue.states import Status
from tests.faults.servers import PrivateServer
from tests.worker import processes
from tests.worker.kinds import Enqueue, Launch
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

BROKEN_STREAM = (
    "bad record mac",
    "unexpected eof",
    "lost synchronization",
    "decryption failed",
    "wrong version number",
)
CHILDREN, JOBS = 4, 400
THREADS_WITH_A_CONNECTION = 5


@pytest.fixture
def encrypted_env(server: PrivateServer, worker_env: dict[str, str]) -> dict[str, str]:
    """Return the environment that has a worker insist on TLS."""
    return {"DATABASE_URL": f"{worker_env['DATABASE_URL']}?sslmode=require"}


def sockets(server: PrivateServer, worker_pids: list[int]) -> dict[int, set[str]]:
    """Return the sockets to the server that each process has open."""
    to_server = processes.server_inodes(server.port)
    return {pid: to_server & processes.socket_inodes(pid) for pid in worker_pids}


@pytest.mark.server(version=15, tls=True)
def test_processes_share_no_encrypted_connection(
    launch: Launch, enqueue: Enqueue, server: PrivateServer, encrypted_env: dict[str, str]
) -> None:
    """C28: 400 short jobs that use the ORM, four children, the parent busy with all it does; no stream is broken."""
    worker = launch("--processes", str(CHILDREN), MAINTENANCE_SECONDS=0.05, CHILD_MAX_JOBS=40, env=encrypted_env)
    mistakes: list[object] = []
    seen: set[int] = set()

    Job.objects.enqueue_many([("probe.orm", {})] * JOBS)
    scheduled = [enqueue("orm", _run_after=timedelta(seconds=0.2 * number)) for number in range(10)]

    def all_done() -> bool:
        family = [worker.pid, *processes.children(worker.pid), *processes.children(worker.zygote)]
        found = sockets(server, sorted(set(family)))
        every = [inode for inodes in found.values() for inode in inodes]
        if len(every) != len(set(every)) or found.get(worker.zygote):
            mistakes.append(found)
        seen.update(pid for pid, inodes in found.items() if inodes)
        return not Job.objects.exclude(status=Status.DONE).exists()

    until(all_done, within=60, what="all done")

    assert mistakes == []
    assert len(seen) > CHILDREN  # the parent's, and those of children that came and went
    assert {job.attempts for job in finished(scheduled)} == {1}
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
    assert encrypted() > THREADS_WITH_A_CONNECTION
    for text in BROKEN_STREAM:
        assert text not in server.log_text.lower()
        assert text not in worker.log.lower()


def encrypted() -> int:
    """Return how many connections of workers are encrypted; all must be."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'jobqueue %'"
        )
        rows = [row[0] for row in cursor.fetchall()]
    assert all(rows), rows
    return len(rows)
