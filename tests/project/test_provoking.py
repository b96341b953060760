"""Every built-in alert can be provoked by the command that docs/alerts.md names, against a real worker."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from jobqueue.alerting import BUILT_IN
from jobqueue.models import Incident
from project.management.commands.demo_provoke import PROVOKERS
from tests.worker.conftest import effects, launch
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

__all__ = ["effects", "launch"]

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = {"demo": {"job_type": "demo.spend", "amount": "2", "unit": "USD", "per": "hour", "at_limit": "alert"}}
TEMPLATES = {
    "few_ports": {"gauge": "demo_ports_pct", "below": 30},
    "blocked": {"counter": "demo_sessions", "labels": {"end_reason": "block"}, "window_seconds": 3600, "threshold": 80},
}
#: Those that need half a minute and more as they are built in; what is shortened is what a rule's options shorten.
RULES: dict[str, Any] = {"oldest_snapshot_sec": 1, "figures_unknown": {"for_seconds": 0}, **TEMPLATES}

Launch = Callable[..., RunningWorker]
Provoke = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def provoke(worker_env: dict[str, str]) -> Any:
    """Return the function that runs the command; what holds something is ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *options: str) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "manage.py", "demo_provoke", name, *options]
        started.append(subprocess.Popen(arguments, cwd=ROOT, env=worker_env, stdout=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def fired(name: str, within: float = 40) -> None:
    until(lambda: Incident.objects.filter(rule=name, state=Incident.State.FIRING).exists(), within=within, what=name)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("name", "rules", "options"),
    [
        ("deadline_1h", ["deadline_1h"], ()),
        ("dead_1h", ["dead_1h"], ()),
        ("cost_1h_usd", ["cost_1h_usd"], ()),
        ("budget_80", ["budget_80"], ()),
        ("budget_100", ["budget_100", "budget_80"], ()),
        ("failure_rate", ["failure_rate", "dead_1h"], ()),
        ("stuck_running", ["stuck_running"], ()),
        ("oldest_pending_sec", ["oldest_pending_sec"], ("--seconds", "20")),
        ("oldest_snapshot_sec", ["oldest_snapshot_sec"], ("--seconds", "60")),
        ("queue_paused_sec", ["queue_paused_sec"], ()),
        ("figures_unknown", ["figures_unknown"], ("--seconds", "60")),
        ("gauge", ["few_ports", "blocked"], ()),
    ],
)
def test_the_command_provokes_the_alert(
    launch: Launch, provoke: Provoke, name: str, rules: list[str], options: tuple[str, ...]
) -> None:
    launch(ALERTS=RULES, ALERT_SECONDS=1, BUDGETS=BUDGETS, SHUTDOWN_TIMEOUT=0.5, LEASE_SECONDS=30)

    provoke(name, *options)

    for rule in rules:
        fired(rule)


def test_a_killed_worker_is_missed(launch: Launch, provoke: Provoke) -> None:
    launch(ALERTS=RULES, ALERT_SECONDS=1, LEASE_SECONDS=30)

    assert provoke("worker_silent").wait(60) == 0
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_worker SET heartbeat_at = heartbeat_at - interval '30 s',"
            " started_at = started_at - interval '30 s' WHERE name = 'provoked'"
        )

    fired("worker_silent")


def test_a_job_in_a_queue_that_nobody_serves_is_missed(
    launch: Launch, provoke: Provoke, worker_env: dict[str, str], tmp_path: Path
) -> None:
    launch("--queues", "default", ALERTS={"queue_without_worker": {"for_seconds": 0}}, ALERT_SECONDS=1)

    assert provoke("queue_without_worker").wait(60) == 0

    fired("queue_without_worker")


def test_every_built_in_alert_has_a_section_with_its_command_on_the_page_for_on_call() -> None:
    page = (ROOT / "docs/alerts.md").read_text()
    sections = dict(re.findall(r"^### ([a-z_0-9, ]+)\n(.*?)(?=^##)", page, re.MULTILINE | re.DOTALL))
    by_rule = {rule: text for names, text in sections.items() for rule in names.split(", ")}

    assert set(BUILT_IN) <= set(PROVOKERS)
    for rule in BUILT_IN:
        assert f"demo_provoke {rule}" in by_rule[rule]
        assert all(word in by_rule[rule] for word in ("*Means:*", "*Do:*", "*Provoke:*")) or rule.startswith("budget")
