"""Django's own tests/tasks: as it is, with our two local backends, and with our backend."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from . import differences
from .fetching import CACHE, ROOT, source_of, version_of

_SETTINGS = """
from project.settings import *
INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in {without}] + {apps}
TASKS = {{"default": {{"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": {queues}}}}}
LOGGING = {{"version": 1}}
LANGUAGE_CODE = "en-us"
DATABASES["default"]["TEST"] = {{"NAME": {database!r}}}
TEST_RUNNER = "tests.conformance.suites.recording.Recorder"
"""
_SHIMS = "tests.conformance.suites.shims"


class Ran(NamedTuple):
    """A suite that was run: its title, how each test ended, and the differences that are meant."""

    title: str
    ends: Mapping[str, tuple[str, str]]
    differences: Mapping[str, str]
    output: str
    left_out: Mapping[str, str]


def run_django(python: Path) -> list[Ran]:
    """Run the three variants under a Python's Django."""
    version = version_of(python)
    source = source_of(python, "django", version) / "tests" / "tasks"
    title = f"Django {version}, tests/tasks"
    return [
        run(python, f"{title}, unmodified, our app installed", source, lambda text: text, {}),
        run(python, f"{title}, our Dummy and Immediate backends in the place of Django's", source, _local, {}),
        run(python, f"{title}, pointed at our backend", source, _repointed, differences.REPOINTED),
    ]


def run(
    python: Path,
    title: str,
    source: Path,
    change: Callable[[str], str],
    meant: Mapping[str, str],
    *,
    package: str = "tasks",
    apps: Sequence[str] = ("tasks",),
    queues: Sequence[str] = (),
    prepare: Callable[[Path], None] = lambda folder: None,
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> Ran:
    """Copy the suite, change its text, and run it, but for the classes that are left out."""
    folder = CACHE / "work" / "".join(letter if letter.isalnum() else "_" for letter in title).lower()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").touch()
    for file in source.glob("*.py"):
        (folder / package / file.name).write_text(change(file.read_text()))
    prepare(folder)
    database = f"conformance_suites_{os.getpid()}"
    (folder / "suite_settings.py").write_text(
        _SETTINGS.format(without=["django_htmx"], apps=list(apps), queues=list(queues), database=database)
    )
    told = folder / "result.json"
    # Some async tests of the suites call what is not async, which a database refuses to have done in an event loop.
    own = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "SUITE_RESULT": str(told), "DJANGO_ALLOW_ASYNC_UNSAFE": "true"}
    command: list[str | Path] = [python, "-m", "django", "test", package, "--settings", "suite_settings", "--noinput"]
    command += [] if package == "tasks" else ["--pattern", "tests.py"]
    environment = {**os.environ, **own, "SUITE_WITHOUT": ",".join(left_out)}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    ends = {name: tuple(end) for name, end in json.loads(told.read_text()).items()} if told.exists() else {}
    return Ran(title, ends, meant, ran.stdout + ran.stderr, left_out)


def _local(text: str) -> str:
    for kind in ("Dummy", "Immediate"):
        text = text.replace(
            f'"django.tasks.backends.{kind.lower()}.{kind}Backend"', f'"jobqueue.backends.{kind}Backend"'
        )
    return text


def _repointed(text: str) -> str:
    text = text.replace("SimpleTestCase", "TransactionTestCase")
    text = text.replace("TransactionTestCase, TransactionTestCase", "TransactionTestCase")
    text = text.replace("available_apps = []", "available_apps = None")  # ours is one
    for kind, ours in (("Dummy", "Storing"), ("Immediate", "Draining")):
        module = f"django.tasks.backends.{kind.lower()}"
        text = text.replace(f"{module}.{kind}Backend", f"{_SHIMS}.{ours}")
        text = text.replace(f"from {module} import {kind}Backend", f"from {_SHIMS} import {ours} as {kind}Backend")
    return text
