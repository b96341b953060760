"""`python -m benchmarks --peers …` as its user runs it, on sizes at which its figures mean nothing."""

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from benchmarks import database
from benchmarks.peers.base import Peer
from tests.connections import database_conninfo

from .test_commands import run

DATABASE = f"jobqueue_peers_test_{os.getpid()}"
TINY = ["--repeats=1", "--retakes=0", "--patience=0", "--jobs=60", "--seconds=0.3", f"--database={DATABASE}"]
VALUES = {
    "drain": "jobs/s",
    "enqueue": "jobs/s",
    "bulk": "jobs/s",
    "latency": "p99 ms",
    "mixed": "finished/s",
}


def rows_of(*arguments: str) -> list[dict[str, Any]]:
    done = run(*TINY, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def databases_left() -> list[str]:
    with psycopg.connect(database_conninfo()) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [DATABASE])
        return [row[0] for row in rows]


@pytest.mark.django_db
def test_ours_is_drained_by_the_protocol_of_all_and_leaves_no_database(tmp_path: Path) -> None:
    saved, charts = tmp_path / "peers.json", tmp_path / "charts"

    (row,) = rows_of("--peers", "jobqueue", "--work", "drain", "--save", str(saved), "--svg", str(charts))

    assert (row["work"], row["error"], row["jobs"]) == ("drain", "", [60])
    assert row["values"]["jobs/s"][0] > 0
    assert json.loads(saved.read_text())["rows"] == [row]
    assert list(charts.glob("*.svg"))
    assert databases_left() == []


@pytest.mark.django_db
def test_after_its_turn_a_peer_has_no_database_whose_autovacuum_takes_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(database.NAME_VARIABLE, DATABASE)
    with psycopg.connect(database_conninfo(), autocommit=True) as server:
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(DATABASE)))
        try:
            with Peer("jobqueue") as peer:
                with peer.turn():
                    peer.reset()
                    during = databases_left()
                after = databases_left()
        finally:
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(DATABASE)))

    assert sorted(during) == [DATABASE, f"{DATABASE}_jobqueue"]
    assert after == [DATABASE]


@pytest.mark.bench
@pytest.mark.parametrize("peer", ["procrastinate", "pgqueuer", "chancy", "oban", "awa", "jobqueue"])
def test_a_peer_goes_through_the_works(peer: str) -> None:
    # Some note what has finished once a second only.
    rows = rows_of("--peers", peer, "--work", ",".join(VALUES), "--settings", "tuned", "--seconds=2.5")

    assert [(row["peer"], row["work"], row["error"]) for row in rows] == [(peer, work, "") for work in VALUES]
    assert all(row["values"][VALUES[row["work"]]][0] > 0 for row in rows)


def test_names_that_are_none_are_refused() -> None:
    for arguments, words in (
        (["--peers", "celerity"], "no such peer: celerity"),
        (["--peers", "awa", "--work", "sleep"], "no such work: sleep"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
