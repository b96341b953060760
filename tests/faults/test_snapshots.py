"""A long transaction elsewhere keeps every dead row: claims stay quick, and all is as before soon after its end."""

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pytest
from django.db import connection

from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.faults.servers import PrivateServer
from tests.worker.kinds import Launch
from tests.worker.waiting import until

from .measured import Recovery

CHUNK, BACKLOG = 12_000, 100_000
SHARE = 0.15  # a tenth is promised, and the clock of a busy machine is coarse
DURATION = re.compile(r"jobqueue (\w+) \S+ LOG:  duration: ([\d.]+) ms  (?:execute \S+|statement): -- (\w+ \w+)")
CLAIM, LEARN, REAP = ("dispatch", "Claim due"), ("dispatch", "List the"), ("maintenance", "Take back")


@pytest.fixture
def transactional_db(scale_table: None, scale_server: PrivateServer) -> Iterator[None]:
    """Use a server whose log tells how long each statement took."""
    scale_server.execute("ALTER DATABASE jobqueue SET log_min_duration_statement = 0")
    connection.close()
    yield
    scale_server.execute("ALTER DATABASE jobqueue RESET log_min_duration_statement")


class Durations:
    """How long the workers' statements took, by the server's log, from one look to the next."""

    def __init__(self, server: PrivateServer) -> None:
        self._log, self._began = server.log, time.monotonic()
        self._offset = self._log.stat().st_size

    def look(self) -> "Look":
        """Return what was logged since the last look."""
        with self._log.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        self._offset += len(text)
        took: dict[tuple[str, str], list[float]] = defaultdict(list)
        for role, milliseconds, words in DURATION.findall(text.decode(errors="replace")):
            took[role, words].append(float(milliseconds))
        seconds, self._began = time.monotonic() - self._began, time.monotonic()
        return Look(took, seconds)


class Look(NamedTuple):
    """Durations in milliseconds by role and the statement's first words, and the seconds that they come from."""

    took: dict[tuple[str, str], list[float]]
    seconds: float

    @property
    def claim_p95(self) -> float:
        """The 95th percentile of the claims."""
        return statistics.quantiles(self.took[CLAIM], n=20)[-1]

    def share(self, kind: tuple[str, str]) -> float:
        """Return the part of the time that statements of a kind took."""
        return sum(self.took[kind]) / 1000 / self.seconds


@contextmanager
def held_snapshot() -> Iterator[None]:
    """Hold a snapshot as a dump or a report does that takes hours."""
    with psycopg.connect(database_conninfo(), application_name="report") as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        yield
        other.rollback()


def drain(jobs: int, *, within: float = 240) -> float:
    """Have so many jobs run, all due at once; returns the rate, by the database's times."""
    first = Job.objects.enqueue_many([("probe.ok", {})] * jobs)[0]
    assert first is not None
    wait_until_done(within)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM max(finished_at) - min(claimed_at))::float8 FROM jobqueue_job WHERE id >= %s",
            [first.pk],
        )
        return jobs / float(cursor.fetchone()[0])


def wait_until_done(within: float) -> None:
    """Wait until no job is due or runs. Looked at twice a second at most: the look itself walks over dead rows."""
    looked = [0.0]

    def done() -> bool:
        if time.monotonic() - looked[0] < 0.5:
            return False
        looked[0] = time.monotonic()
        return not Job.objects.filter(status__in=[Status.PENDING, Status.RUNNING]).exists()

    until(done, within=within, what="all done")


def trickle(seconds: float, rate: float) -> float:
    """Enqueue one job after the other; returns the 95th percentile of their waits, in seconds."""
    began, made = time.monotonic(), [Job.objects.enqueue("probe.ok", {})]

    def one_more() -> bool:
        # As many as are due by now, but a machine that cannot keep up is not asked to.
        while len(made) < (passed := time.monotonic() - began) * rate and passed < seconds:
            made.append(Job.objects.enqueue("probe.ok", {}))
        return time.monotonic() - began > seconds

    until(one_more, within=seconds + 5)
    wait_until_done(60)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM claimed_at - created_at)::float8)"
            " FROM jobqueue_job WHERE id >= %s",
            [made[0].pk],
        )
        return float(cursor.fetchone()[0])


def test_a_held_snapshot_slows_no_claim_and_leaves_nothing_behind(
    launch: Launch, scale_server: PrivateServer, recovery: Recovery
) -> None:
    """C103, C104: 300,000 jobs go through one worker, and a steady trickle, while a report holds its snapshot.

    Whoever looks for the reason finds the report in the snapshot; most figures of the console stay known.
    """
    worker = launch("--processes", "2")
    durations = Durations(scale_server)
    before = statistics.median(drain(CHUNK) for _ in range(3))
    free = durations.look()
    trickle(5, 200)
    durations.look()

    with held_snapshot():
        for _ in range(3):
            drain(BACKLOG)
            held = durations.look()
        waits = trickle(10, 200)
        held_trickle = durations.look()
        # Figures of indexes that no job passes through stay known; the others may be left out.
        known = {"done", "dead", "dead_1h", "deadline_1h", "cost_1h_usd"}
        until(lambda: not Job.objects.ops().unknown & known, what=lambda: f"{known}, not {Job.objects.ops()}")
        told = Job.objects.ops(fresh=True).database
    ended = time.monotonic()
    until(lambda: drain(CHUNK) >= 0.9 * before, within=60, what=f"nine tenths of {before:.0f} jobs a second")

    recovery("90 % of the rate after the snapshot's end", time.monotonic() - ended, within=60)
    recovery("growth of the claims' p95 under the snapshot", held.claim_p95 / free.claim_p95, within=3, unit="×")
    recovery(
        "the claims' p95 under the snapshot, one job after the other", held_trickle.claim_p95, within=100, unit="ms"
    )
    recovery("p95 of the waits under the snapshot", waits, within=1)
    for look in (held, held_trickle):
        assert look.share(LEARN) < SHARE, look.share(LEARN)
        assert look.share(REAP) < SHARE, look.share(REAP)
    assert told.oldest_snapshot_by is not None
    assert (told.oldest_snapshot_by.name, told.oldest_snapshot_by.state) == ("report", "idle in transaction")
    assert told.oldest_snapshot_xids > 1_000
    assert next(one.dead_rows for one in told.tables if one.table == "jobqueue_job") > BACKLOG
    assert "Traceback" not in worker.log
