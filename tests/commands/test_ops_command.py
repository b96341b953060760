"""jobqueue_ops: a table for people, JSON for monitors, one line and exit code 1 when the database is away."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from jobqueue.managers import counting
from jobqueue.models import Job
from jobqueue.ops import snapshot as snapshots
from jobqueue.ops.snapshot import FIGURES
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory

from .conftest import Ran

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EACH", timedelta(seconds=5))
    monkeypatch.setattr(snapshots, "TOTAL", timedelta(seconds=20))


@pytest.mark.django_db
@pytest.mark.smoke
def test_the_table_has_a_line_a_figure(run: Callable[..., Ran]) -> None:
    JobFactory.create_batch(12)
    CostFactory.create(amount="0.125")

    ran = run("jobqueue_ops")

    lines = ran.out.splitlines()
    assert (ran.code, len(lines)) == (0, 9)
    assert lines[0].split() == ["pending", "12"]
    assert lines[8].split()[-1] == "0.12500000"
    assert len({len(line) for line in lines}) == 1


@pytest.mark.django_db
def test_the_json_is_one_object(run: Callable[..., Ran]) -> None:
    JobFactory.create(status=Status.DEAD)

    values = json.loads(run("jobqueue_ops", "--json").out)

    assert [name for name in values if name in FIGURES] == list(FIGURES)
    assert (values["dead"], values["dead_1h"], values["cost_1h_usd"], values["unknown"]) == (1, 1, "0", [])


@pytest.mark.django_db
def test_a_capped_count_and_an_unknown_figure_are_shown_as_such(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143."""
    monkeypatch.setattr(snapshots, "COUNT_CAP", 2)
    monkeypatch.setattr(counting, "oldest_pending_seconds", _too_slow)
    monkeypatch.setattr(snapshots, "EACH", timedelta(milliseconds=300))
    JobFactory.create_batch(3)

    ran = run("jobqueue_ops")

    assert ran.code == 0
    assert ">=2" in ran.out.splitlines()[0]
    assert ran.out.splitlines()[6].endswith("unknown")


def _too_slow(query: Callable[..., object]) -> object:
    return query("SELECT pg_sleep(30)", {})


@pytest.mark.django_db
def test_an_alias_that_does_not_exist_is_named(run: Callable[..., Ran]) -> None:
    ran = run("jobqueue_ops", "--database", "nowhere")

    assert (ran.code, ran.out) == (1, "")
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
def test_the_command_writes_nothing(run: Callable[..., Ran]) -> None:
    job = JobFactory.create()

    run("jobqueue_ops")

    assert Job.objects.get().updated_at == job.updated_at
