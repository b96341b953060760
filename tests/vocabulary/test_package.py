"""What `import jobqueue` gives, and what it must not need."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from django.apps import apps
from django.dispatch import Signal

import jobqueue
from jobqueue import signals

ROOT = Path(__file__).resolve().parents[2]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_public_names_are_those_of_the_design() -> None:
    classes = {"Backoff", "Dead", "Discard", "Limits", "Retry", "Snooze"}

    assert set(jobqueue.__all__) == classes | {"MB", "__version__", "count", "gauge", "job"}
    assert all(hasattr(jobqueue, name) for name in jobqueue.__all__)


def test_importing_the_package_needs_neither_settings_nor_models() -> None:
    done = python("import sys, jobqueue; assert 'jobqueue.models' not in sys.modules; print(jobqueue.__version__)")

    assert (done.stdout.strip(), done.stderr) == (jobqueue.__version__, "")


def test_the_package_says_that_it_is_typed() -> None:
    assert files("jobqueue").joinpath("py.typed").is_file()


def test_the_app_has_one_label_and_big_keys() -> None:
    config = apps.get_app_config("jobqueue")

    assert (config.name, str(config.verbose_name)) == ("jobqueue", "Job queue")
    assert config.default_auto_field == "django.db.models.BigAutoField"


@pytest.mark.parametrize(
    "name",
    [
        "job_started",
        "job_done",
        "job_retrying",
        "job_dead",
        "job_cancelled",
        "worker_started",
        "worker_stopped",
        "worker_heartbeat",
    ],
)
def test_each_event_has_its_signal(name: str) -> None:
    assert isinstance(getattr(signals, name), Signal)
