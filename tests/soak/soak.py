"""The soak itself: start, load and faults for the time given, quiet, account."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import close_old_connections, connection
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import FINISHED, Status
from tests.faults.servers import PrivateServer
from tests.faults.universal import check_scenario
from tests.worker.effects import Effects
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

from . import accounts
from .chaos import Chaos
from .fleet import Fleet
from .load import Load
from .watching import Watch, ours_on_disk

FLEET = 3
JOBS_A_SECOND = 2  # at least, on the noisiest machine
QUIET_WITHIN_SECONDS = 120


class Soak:
    """One run, on a server of its own; `stays` is the URL of another, for the effects of handlers."""

    def __init__(self, server: PrivateServer, folder: Path, *, stays: str, seed: int) -> None:
        self.server, self.folder, self.seed, self.stays = server, folder, seed, stays
        self.effects_database = f"soak_effects_{os.getpid()}"

    def run(self, seconds: float) -> int:
        """Run, print the figures, and return the exit code."""
        call_command("migrate", verbosity=0)
        before = ours_on_disk()
        dsn = self._create_effects_database()
        fleet = Fleet(self.folder, size=FLEET, dsn=dsn)
        effects = Effects(dsn)
        load, watch = Load(self.seed), Watch(fleet, self.server)
        chaos = Chaos(fleet, self.server, self.seed)
        try:
            until(fleet.all_serve, within=60, what="the fleet's start")
            load.start()
            self._rage(seconds, fleet, chaos, watch)
            with violation(fleet):
                self._account(seconds, load, fleet, effects)
            with violation(fleet):
                self._close(fleet, before)
        except AssertionError as error:
            fleet.violations.append(str(error))
        finally:
            chaos.end()
            load.stop()
            fleet.clear_away()
            effects.close()
        return self._report(seconds, load, fleet, chaos, watch)

    def _create_effects_database(self) -> str:
        with psycopg.connect(self.stays, autocommit=True) as raw:
            name = sql.Identifier(self.effects_database)
            raw.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            raw.execute(sql.SQL("CREATE DATABASE {}").format(name))
        return make_conninfo(self.stays, dbname=self.effects_database)

    def _rage(self, seconds: float, fleet: Fleet, chaos: Chaos, watch: Watch) -> None:
        end = time.monotonic() + seconds

        def step() -> bool:
            fleet.tend()
            chaos.step()
            watch.step()
            return time.monotonic() >= end

        until(step, within=2 * seconds + 120, what="the end of the faults")
        chaos.end()

    def _account(self, seconds: float, load: Load, fleet: Fleet, effects: Effects) -> None:
        """Let everything end in quiet, then check the universal promises and the books."""
        load.stop()
        assert load.error is None, f"the load ended by an error: {load.error!r}"
        assert len(load.acknowledged) > JOBS_A_SECOND * seconds, f"hardly any load: {len(load.acknowledged)} jobs"
        close_old_connections()
        until(fleet.all_serve, within=60, what="the fleet after the faults")
        open_jobs = Job.objects.exclude(status__in=FINISHED)
        until(
            lambda: fleet.all_serve() and not open_jobs.exists(),
            within=QUIET_WITHIN_SECONDS,
            what=lambda: f"every job to end: {list(open_jobs.values('pk', 'job_type', 'status', 'run_after')[:20])}",
        )
        fleet.violations += accounts.violations(load, effects)

        def launch(*arguments: str) -> RunningWorker:
            raise AssertionError(f"nobody serves any more: {arguments}")

        check_scenario([post.worker for post in fleet.posts], launch, effects)

    def _close(self, fleet: Fleet, before: set[str]) -> None:
        """Stop the workers, and look at what is left of them."""
        fleet.stop()
        until(lambda: not list(accounts.of_the_server(self.server)), within=5, what="no connection of theirs")
        fleet.violations += accounts.of_the_logs(fleet)
        left = [str(path) for path in fleet.temporary.iterdir()] + sorted(ours_on_disk() - before)
        if left:
            fleet.violations.append(f"temporary files left: {left}")

    def _report(self, seconds: float, load: Load, fleet: Fleet, chaos: Chaos, watch: Watch) -> int:
        with suppress(psycopg.Error):
            statuses = Counter(Job.objects.values_list("status", flat=True))
            outcomes = Counter(Attempt.objects.values_list("outcome", flat=True))
            runs = ", ".join(f"{Outcome(outcome).name} {count}" for outcome, count in outcomes.most_common())
            jobs = ", ".join(f"{Status(status).name} {count}" for status, count in statuses.most_common())
            print(f"jobs: {sum(statuses.values())}, {len(load.acknowledged)} of them acknowledged to the load: {jobs}")
            print(f"attempts that ended badly: {runs}")
        connection.close()
        for fault, count in sorted(chaos.done.items()):
            print(f"{count:5} x {fault}")
        print(
            f"{chaos.done.total()} faults in {seconds:g} s; {len(fleet.workers)} workers; exit codes {dict(fleet.ends)}"
        )
        print(f"enqueues that the database refused: {dict(load.refused)}; most connections {watch.most_connections}")
        for line in watch.verdicts():
            print(line)
        for violation in fleet.violations:
            print(f"VIOLATED  {violation}")
        kept = f"logs in {self.folder}" if fleet.violations else "logs deleted"
        print(f"{len(fleet.violations)} violations, seed {self.seed}; {kept}", flush=True)
        if not fleet.violations:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._drop_effects_database()
        return 1 if fleet.violations else 0

    def _drop_effects_database(self) -> None:
        with psycopg.connect(self.stays, autocommit=True) as raw:
            raw.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.effects_database)))


@contextmanager
def violation(fleet: Fleet) -> Iterator[None]:
    """Note what does not hold, and go on: one violation must not hide others."""
    try:
        yield
    except AssertionError as error:
        fleet.violations.append(str(error))
