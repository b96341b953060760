"""A rolling upgrade: workers and enqueuers of the release before, migrations beside them, then those of this one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.states import Status
from tests.worker.effects import Effects
from tests.worker.kinds import Launch
from tests.worker.launching import ROOT, RunningWorker
from tests.worker.waiting import until

from .clients import Enqueuer
from .tools import missing

#: What the release before does not have: its code is that of the commit before this file came.
FIRST_OF_THIS_RELEASE = "jobqueue/migrations/0008_console.py"
TREE = ("jobqueue", "project", "tests", "manage.py", "setup.cfg")
MARKS = 40
OLD_CLIENT = """
import sys, time, django
django.setup()
from jobqueue.models import Job
made = 0
while not sys.stdin.closed and made < 100_000:
    Job.objects.enqueue("probe.ok", {"by": "old"})
    Job.objects.enqueue_many([("probe.ok", {"by": "old"})] * 2)
    made += 3
    print(made, flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def transactional_db(scale_table: None) -> None:
    """Use a server of its own, whose tables may be migrated to and fro."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout of the release before."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout

    if not (ROOT / ".git").exists():
        missing("the release before comes from the history: no git checkout here")
    came_by = git("log", "--diff-filter=A", "--format=%H", "--", FIRST_OF_THIS_RELEASE).decode().split()
    if not came_by:
        missing("the history does not reach back to the release before")
    tree = tmp_path_factory.mktemp("before")
    archive = git("archive", f"{came_by[-1]}^", *TREE)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    return tree


def migrations(tree: Path) -> list[str]:
    """Return the names of the migrations of a checkout, in order."""
    return sorted(path.stem for path in (tree / "jobqueue" / "migrations").glob("0*.py"))


def migrate(environment: dict[str, str], name: str, *, root: Path = ROOT) -> None:
    """Run `manage.py migrate jobqueue` of a checkout."""
    command = [sys.executable, "manage.py", "migrate", "jobqueue", name, "-v", "0"]
    subprocess.run(command, cwd=root, env=environment | {"PYTHONPATH": str(root)}, check=True, timeout=120)


@contextmanager
def old_client(environment: dict[str, str], tree: Path) -> Iterator[list[int]]:
    """Have a process of the release before enqueue all the time; gives a list that in the end has how many it made."""
    made: list[int] = []
    process = subprocess.Popen(
        [sys.executable, "-c", OLD_CLIENT],
        cwd=tree,
        env=environment | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()  # it is at work
        yield made
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.terminate()
        told, _ = process.communicate(timeout=10)
    made.append(int(told.split()[-1]))


def done_by(worker: RunningWorker) -> int:
    """Count the jobs that a worker has done."""
    return Job.objects.filter(worker_id=worker.worker_id, status=Status.DONE).count()


def test_a_rolling_upgrade_loses_nothing_and_runs_nothing_twice(
    launch: Launch, worker_env: dict[str, str], effects: Effects, before: Path
) -> None:
    """C58, C117: migrate first, then worker by worker; also back to the old worker, on the new tables."""
    migrate(worker_env, migrations(before)[-1])
    first = launch("--processes", "1", root=before)
    with old_client(worker_env, before) as old:
        until(lambda: done_by(first) > 20, what="the old worker at work on its own tables")
        migrate(worker_env, migrations(ROOT)[-1])
        seen = done_by(first)
        until(lambda: done_by(first) > seen + 20, what="the old worker at work on the new tables")

        new = launch("--processes", "1")
        with Enqueuer(pause=0.02) as client:
            Job.objects.enqueue_many([("probe.mark", {"seconds": 0.02})] * MARKS)
            seen = done_by(first)
            until(lambda: done_by(new) > 100 and done_by(first) > seen + 20, what="both at work")
            first.stop()
            assert first.ends() in (0, 3)
            back = launch("--processes", "1", root=before)  # a deploy that is taken back leaves the tables new
            until(lambda: done_by(back) > 50, what="an old worker started on the new tables")
            new.stop()
            assert new.ends() in (0, 3)

    assert client.errors == []
    assert Job.objects.count() >= old[0] + client.enqueued + MARKS, "nothing that was acknowledged is missing"
    open_jobs = Job.objects.exclude(status=Status.DONE)
    until(lambda: not open_jobs.exists(), within=60, what="all done")
    assert (effects.count("start"), effects.count("end")) == (MARKS, MARKS)
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
    assert not Attempt.objects.exists()


def test_a_new_worker_on_old_tables_says_what_to_do(launch: Launch, worker_env: dict[str, str], before: Path) -> None:
    """C117: the order of a deploy is migrate first; a worker that came too early begins nothing."""
    migrate(worker_env, migrations(before)[-1])
    try:
        early = launch(wait=False)

        assert early.ends() == 1
        assert f"not migrated ({', '.join(sorted(set(migrations(ROOT)) - set(migrations(before))))})" in early.log
    finally:
        migrate(worker_env, migrations(ROOT)[-1])
