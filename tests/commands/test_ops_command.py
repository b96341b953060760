"""jobqueue_ops: tables for people, JSON for monitors, one line and exit code 1 when the database is away."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from jobqueue.management import tables
from jobqueue.managers import counting
from jobqueue.models import Job, Queue
from jobqueue.ops import counts, database, reading
from jobqueue.ops.snapshot import FIGURES
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory, StatFactory, WorkerFactory, ago
from tests.ops.conftest import patient  # noqa: F401  (a fixture)
from tests.worker.waiting import until

from .conftest import Ran

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.usefixtures("patient")


@pytest.mark.django_db
@pytest.mark.smoke
def test_the_table_has_a_line_a_figure(run: Callable[..., Ran]) -> None:
    JobFactory.create_batch(12)
    CostFactory.create(amount="0.125")

    ran = run("jobqueue_ops")

    lines = ran.out.partition("\n\n")[0].splitlines()
    assert (ran.code, len(lines)) == (0, 11)
    assert lines[0].split() == ["pending", "12"]
    assert lines[8].split()[-1] == "0.12500000"
    assert len({len(line) for line in lines}) == 1


@pytest.mark.django_db
def test_queues_workers_and_database_have_tables(run: Callable[..., Ran]) -> None:
    JobFactory.create_batch(3, queue="mail", run_after=ago(130))
    Queue.objects.create(name="mail", paused_at=ago(5), paused_by="anna")
    StatFactory.create(queue="mail", jobs=90, wait_buckets=[20] * 90)
    StatFactory.create(queue="mail", jobs=30, outcome=Outcome.FAILED)
    WorkerFactory.create(
        name="w1", hostname="web-3", pid=4711, slots=4, busy=3, heartbeat_at=ago(2), memory_bytes=93_000_000,
        gauges=[{"name": "ports", "labels": {"zone": "b"}, "value": 27}],
    )  # fmt: skip
    WorkerFactory.create(name="w2", heartbeat_at=ago(7_200))

    lines = run("jobqueue_ops").out.splitlines()

    mail = next(line for line in lines if line.startswith("mail")).split()
    assert mail[:5] == ["mail", "3", "2.2m", "0.0033", "0.1"]
    assert mail[-5:] == ["25%", "0", "-", "by", "anna"]
    one, other = (next(line for line in lines if line.startswith(name)).split() for name in ("w1", "w2"))
    assert one[:4] == ["w1", "web-3", "alive", "4711"]
    assert {"3/4", "93", "MB"} <= {*one}
    assert other[2] == "silent"
    assert "  w1  ports{zone=b} = 27" in lines
    assert any(line.startswith("oldest snapshot: ") for line in lines)
    assert any(line.startswith("connections: ") for line in lines)
    assert any(line.startswith("NOTIFY: not in use") for line in lines)


@pytest.mark.django_db
def test_names_from_outside_cannot_steer_the_terminal(run: Callable[..., Ran]) -> None:
    JobFactory.create(queue="\x1b[2Jgone")

    assert "\x1b" not in run("jobqueue_ops").out


@pytest.mark.django_db
def test_the_json_is_one_object(run: Callable[..., Ran]) -> None:
    JobFactory.create(status=Status.DEAD)

    values = json.loads(run("jobqueue_ops", "--json").out)

    assert [name for name in values if name in FIGURES] == list(FIGURES)
    assert (values["dead"], values["dead_1h"], values["cost_1h_usd"], values["unknown"]) == (1, 1, "0", [])
    assert [queue["queue"] for queue in values["queues"]] == ["default"]


@pytest.mark.django_db
def test_a_capped_count_and_an_unknown_figure_are_shown_as_such(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143."""
    monkeypatch.setattr(counts, "COUNT_CAP", 2)
    monkeypatch.setattr(counting, "oldest_pending_seconds", _too_slow)
    monkeypatch.setattr(reading, "EACH", reading.EACH / 10)
    JobFactory.create_batch(3)

    ran = run("jobqueue_ops")

    assert ran.code == 0
    assert ">=2" in ran.out.splitlines()[0]
    assert ran.out.splitlines()[10].endswith("unknown")


@pytest.mark.django_db
def test_a_time_to_drain_of_a_capped_depth_is_shown_as_such(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "COUNT_CAP", 2)
    for name, jobs in (("a", 3), ("b", 3), ("c", 2)):
        JobFactory.create_batch(jobs, queue=name, created_at=ago(9_000))
        StatFactory.create(queue=name, jobs=90)

    words = [line.split() for line in run("jobqueue_ops").out.splitlines()]

    drains = {word[0]: word[-2] for word in words if word and word[0] in ("a", "b", "c")}
    assert drains == {"a": ">=20s", "b": ">=20s", "c": "20s"}


def _too_slow(query: Callable[..., object]) -> object:
    return query("SELECT pg_sleep(30)", {})


@pytest.mark.django_db
def test_parts_that_could_not_be_read_are_named(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **named: object) -> None:
        raise_in_sql()

    for name in ("read_workers", "paused_queues"):
        monkeypatch.setattr(reading, name, fail)
    monkeypatch.setattr(database, "read_sizes", fail)

    out = run("jobqueue_ops").out

    assert "workers: unknown" in out
    assert "queues: unknown paused" in out
    assert "database: unknown sizes" in out


def raise_in_sql() -> None:
    Job.objects.run_sql("SELECT 1 / 0", {})


@pytest.mark.django_db
def test_an_alias_that_does_not_exist_is_named(run: Callable[..., Ran]) -> None:
    ran = run("jobqueue_ops", "--database", "nowhere")

    assert (ran.code, ran.out) == (2, ""), "wrong options, not a database that is away"
    assert "'nowhere': no such alias" in ran.error


@pytest.mark.parametrize("command", [["jobqueue_ops", "--json"], ["jobqueue_prune"], ["jobqueue_redrive", "--all"]])
def test_with_the_database_away_there_is_one_line_and_exit_code_1(command: list[str]) -> None:
    """Case C143, as a monitor calls it."""
    environment = {**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}

    ran = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (1, "")
    assert len(ran.stderr.strip().splitlines()) == 1
    assert ran.stderr.startswith("CommandError: the database does not answer: ")


@pytest.mark.django_db
def test_tables_that_no_migration_has_made_are_told_with_what_to_do(run: Callable[..., Ran]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO pg_catalog")  # where no table of ours is

    ran = run("jobqueue_redrive", "--all", "--dry-run")

    assert (ran.code, ran.out) == (1, "")
    assert ran.error.endswith('relation "jobqueue_job" does not exist: run manage.py migrate')


@pytest.mark.django_db
def test_the_command_writes_nothing(run: Callable[..., Ran]) -> None:
    job = JobFactory.create()

    run("jobqueue_ops")

    assert Job.objects.get().updated_at == job.updated_at


@contextmanager
def watching(environment: dict[str, str], log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command with --watch, its output in a file."""
    with (
        log.open("w") as out,
        subprocess.Popen(
            [sys.executable, "manage.py", "jobqueue_ops", "--watch", "0.2", *options],
            cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.django_db(transaction=True)
def test_watch_prints_again_what_changed_until_it_is_interrupted(worker_env: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "out"
    with watching(worker_env, log, "--json") as process:

        def last() -> int | None:
            lines = log.read_text().splitlines()[:-1]
            return json.loads(lines[-1])["pending"] if lines else None

        until(lambda: last() == 0, within=60, what="a first look")
        JobFactory.create_batch(3)
        until(lambda: last() == 3, within=30, what="a later look")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0

    assert "Traceback" not in log.read_text()


def test_watch_tells_that_the_database_is_away_and_goes_on(tmp_path: Path) -> None:
    log, line = tmp_path / "out", "the database does not answer: "
    with watching({**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, log) as process:
        until(lambda: log.read_text().count(line) >= 2, within=60, what="two lines")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0

    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (0.0152, "15ms"),
        (2.54, "2.5s"),
        (40.4, "40s"),
        (150, "2.5m"),
        (3_540, "59m"),
        (11_520, "3.2h"),
        (86_400 * 5, "5.0d"),
    ],
)
def test_times_have_two_digits_and_a_unit(seconds: float | None, text: str) -> None:
    assert tables.duration(seconds) == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (tables.size(None), "-"),
        (tables.size(512), "512 B"),
        (tables.size(93_400_000), "93 MB"),
        (tables.size(1.5e9), "1.5 GB"),
        (tables.rate(None), "-"),
        (tables.rate(0.0), "0"),
        (tables.rate(0.253), "0.25"),
        (tables.rate(1234.5), "1234"),
        (tables.share(None), "-"),
        (tables.share(0.0), "0%"),
        (tables.share(0.004), "0.4%"),
        (tables.share(0.256), "26%"),
    ],
)
def test_other_figures_are_short_too(shown: str, text: str) -> None:
    assert shown == text
