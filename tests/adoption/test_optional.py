"""Nothing optional is imported unless it is used, and then the message names the extra that brings it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.building import Built, install, link_required

SETTINGS = {"TRACING": True, "OPS_TOKEN": "t" * 40, "ALERT_WEBHOOKS": ["https://partner.example/alerts"]}
# What is of use only together with something optional; all else has to be importable without any extra.
NEED_AN_EXTRA = {
    "jobqueue.backends": "pip install 'jobqueue[tasks]'",
    "jobqueue.contrib.tasks_db": "pip install 'jobqueue[tasks]'",
    "jobqueue.outbox.client": "No module named 'http",
    "jobqueue.testing.conformance": "pip install 'jobqueue[tasks]'",
    "jobqueue.testing.conformance.settings": "JOBQUEUE_CONFORMANCE",  # not an extra: what the kit's plugin sets
    "jobqueue.testing.conformance.plugin": "No module named 'pytest'",
    "jobqueue.testing.conformance.test_contract": "No module named 'pytest'",
    "jobqueue.testing.factories": "pip install 'jobqueue[test]'",
    "jobqueue.testing.plugin": "No module named 'pytest'",
}
TASKS = "jobqueue.backends needs the tasks API: Django 6.0 or newer, or"
WEBHOOKS = "webhooks need httpx and standardwebhooks: pip install 'jobqueue[webhooks]'"


@pytest.fixture(scope="session")
def told(built: Built, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what bare.py tells where pip has installed the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    install(built, folder)
    link_required(folder)
    done = subprocess.run(
        # -S: no site-packages but that folder.
        [sys.executable, "-S", str(Path(__file__).with_name("bare.py"))],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "BARE_JOBQUEUE": json.dumps(SETTINGS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["home"].startswith(str(folder))
    return answer


def test_every_module_that_has_no_optional_purpose_is_imported_without_any_extra(told: dict[str, Any]) -> None:
    unexpected = {
        module: text
        for module, text in told["failing"].items()
        if not any(
            (module == needy or module.startswith(f"{needy}.")) and part in text
            for needy, part in NEED_AN_EXTRA.items()
        )
    }

    assert unexpected == {}
    assert "jobqueue.outbox.client" in told["failing"]  # so something optional is really missing


def test_the_pages_of_the_console_go_without_htmx(told: dict[str, Any]) -> None:
    assert told["uses"]["htmx"] == ""


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("send at once", f"ConfigurationError: {WEBHOOKS}"),
        ("metrics", "ConfigurationError: metrics need prometheus_client: pip install 'jobqueue[metrics]'"),
        ("tracing", "ConfigurationError: JOBQUEUE['TRACING'] needs OpenTelemetry: pip install 'jobqueue[otel]'"),
        ("conformance", "SystemExit: the conformance kit needs pytest: pip install 'jobqueue[test]'"),
        ("factories", "ImportError: jobqueue.testing.factories needs factory-boy: pip install 'jobqueue[test]'"),
        (
            "backend",
            f"ImproperlyConfigured: {TASKS} pip install 'jobqueue[tasks]' (No module named 'django_tasks')",
        ),
    ],
)
def test_who_uses_what_is_optional_is_told_the_extra(told: dict[str, Any], use: str, message: str) -> None:
    assert told["uses"][use] == message


def test_the_page_of_metrics_says_so_instead_of_failing(told: dict[str, Any]) -> None:
    assert json.loads(told["uses"]["metrics page"]) == {
        "error": "metrics need prometheus_client: pip install 'jobqueue[metrics]'"
    }


def test_the_system_checks_say_so_before_anything_runs(told: dict[str, Any]) -> None:
    checks = told["uses"]["checks"]
    assert "jobqueue.E012 JOBQUEUE['TRACING'] needs OpenTelemetry pip install 'jobqueue[otel]'" in checks
    assert f"jobqueue.E013 JOBQUEUE['ALERT_WEBHOOKS']: {WEBHOOKS}" in checks
