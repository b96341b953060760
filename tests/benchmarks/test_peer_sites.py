"""What the peers are run with: pinned requirements, and the settings of the small Django project."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import catalogue, drivers, venvs

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = [entry for entry in catalogue.PEERS.values() if entry.name != catalogue.OURS]
DSN = "postgresql://us%40er:pass%2Fword@db.example:5433/jobs_of%20one"
DRIVERS = Path(drivers.__file__).parent


def pins(module: str) -> dict[str, str]:
    lines = (venvs.REQUIREMENTS / f"{module}.txt").read_text().splitlines()
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines)}


def packages_told(module: str) -> list[str]:
    """Return Peer.packages of a driver, which only its own environment can import."""
    tree = ast.parse((DRIVERS / f"{module}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "packages" for target in node.targets):
            told: tuple[str, ...] = ast.literal_eval(node.value)
            return list(told)
    return []


def site(name: str, tuned: bool = False) -> dict[str, Any]:
    """Return the settings as a process of their own sees them."""
    program = (
        "import json, benchmarks.peers.drivers.django_site as site;"
        "print(json.dumps({name: value for name, value in vars(site).items() if name.isupper() and name != 'SITES'},"
        " default=repr))"
    )
    environment = {**os.environ, "PEER_DJANGO": name, "PEER_DSN": DSN, "PEER_TUNED": "1" if tuned else "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    settings: dict[str, Any] = json.loads(done.stdout)
    return settings


@pytest.mark.parametrize("entry", PEERS, ids=lambda entry: entry.name)
def test_everything_that_a_peer_needs_is_pinned_and_the_versions_it_tells_are_among_it(entry: catalogue.Entry) -> None:
    pinned = pins(entry.module)

    assert all(pinned.values()), "a line is no pin"
    assert {name.lower() for name in packages_told(entry.module)} <= pinned.keys()


def test_the_site_is_on_the_database_that_the_harness_names_and_keeps_its_connections() -> None:
    database = site("django_ox")["DATABASES"]["default"]

    told = [database[key] for key in ("NAME", "HOST", "PORT", "USER", "PASSWORD", "CONN_MAX_AGE")]
    assert told == ["jobs_of one", "db.example", 5433, "us@er", "pass/word", None]


def test_the_default_form_has_no_setting_of_the_peer_but_those_without_which_it_does_not_run() -> None:
    assert site("dj_queue")["TASKS"]["default"]["OPTIONS"] == {}
    assert "STEADY_QUEUE" not in site("steady_queue")
    assert "VTASKS_QUEUES" not in site("django_vtasks")
    assert site("django_q2")["Q_CLUSTER"].keys() == {"name", "orm", "timeout", "retry", "log_level"}


def test_the_tuned_form_differs() -> None:
    assert site("dj_queue", tuned=True)["TASKS"]["default"]["OPTIONS"]["preserve_finished_jobs"] is False
    assert site("django_q2", tuned=True)["Q_CLUSTER"]["bulk"] > 1
