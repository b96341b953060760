"""The pytest plugin: its options, a database for the run, and the report.

setup.cfg names it as an entry point, so that `pytest --pyargs jobqueue.testing.conformance` knows the options. It does
nothing where --tasks-backend is not given.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from . import trace
from .report import Report

CONFIGURATION: Final = "JOBQUEUE_CONFORMANCE"
_DATABASES: Final = "JOBQUEUE_CONFORMANCE_DATABASES"
_SETTINGS: Final = "jobqueue.testing.conformance.settings"
_RUN: Final = pytest.StashKey["Run"]()

pytest.register_assert_rewrite("jobqueue.testing.conformance.checks", "jobqueue.testing.conformance.bench")


class Run:
    """What the options say, and what the run leaves to clean up."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="conformance-"))
        self.report = Report(options.tasks_backend, options.tasks_drain)
        self.skipped = dict(entry.partition("=")[::2] for entry in options.tasks_skip)
        alias = {
            "BACKEND": options.tasks_backend,
            "QUEUES": ["default", "second"],
            "OPTIONS": json.loads(options.tasks_options),
        }
        self.tasks = {"default": alias, "second": alias}
        names = (CONFIGURATION, _DATABASES, trace.VARIABLE, "DJANGO_SETTINGS_MODULE")
        self._variables = {name: os.environ.get(name) for name in names}

    def configure(self, otherwise: str) -> None:
        """Set the environment that the settings of the run, and its workers, read."""
        base = self.options.tasks_settings or os.environ.get("DJANGO_SETTINGS_MODULE") or otherwise
        if not base:
            raise pytest.UsageError("whose settings? give --tasks-settings or DJANGO_SETTINGS_MODULE")
        drain = self.options.tasks_drain
        os.environ[CONFIGURATION] = json.dumps(
            {
                "settings": base,
                "apps": [name for name in self.options.tasks_apps.split(",") if name],
                "tasks": self.tasks,
                "has_worker": bool(drain) and not drain.startswith("python:"),
                "folder": str(self.folder),
                "pid": os.getpid(),
            }
        )
        os.environ[trace.VARIABLE] = str(self.folder / "trace.jsonl")
        os.environ["DJANGO_SETTINGS_MODULE"] = _SETTINGS

    def name_databases(self, names: dict[str, str]) -> None:
        """Tell workers which databases were created."""
        os.environ[_DATABASES] = json.dumps(names)

    def end(self) -> None:
        """Put the environment back, and remove the folder."""
        for name, value in self._variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(self.folder, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the kit's options."""
    group = parser.getgroup("tasks", "conformance of a django.tasks backend (jobqueue.testing.conformance)")
    add = group.addoption
    add("--tasks-backend", default="", help="dotted path of the backend to test")
    add("--tasks-options", default="{}", help="its OPTIONS, as JSON")
    add(
        "--tasks-drain",
        default="",
        help='how tasks are run: "manage.py …" (one batch or for ever), or python:dotted.path',
    )
    add("--tasks-settings", default="", help="settings of the tested project (DATABASES, INSTALLED_APPS and the like)")
    add("--tasks-apps", default="", help="apps to add to INSTALLED_APPS, with commas between them")
    add("--tasks-skip", action="append", default=[], metavar="NAME=REASON", help="leave a check out, and say why")
    add("--tasks-bound", type=float, default=30.0, help="seconds within which a healthy worker runs a task (30)")
    add("--tasks-crash-bound", type=float, default=60.0, help="seconds within which a crash is seen to (60)")
    add("--tasks-report", default="", help="write the results to this file, as a table in Markdown")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Set Django up before pytest-django, if it is there, looks for settings, and before a conftest imports models."""
    options = early_config.known_args_namespace
    if getattr(options, "tasks_backend", ""):
        run = Run(options)
        known = early_config.pluginmanager.hasplugin("django")
        run.configure(early_config.getini("DJANGO_SETTINGS_MODULE") if known else "")
        early_config.stash[_RUN] = run
        import django  # noqa: PLC0415

        django.setup()
    return (yield)


def run_of(config: pytest.Config) -> Run:
    """Return the run that the options ask for."""
    return config.stash[_RUN]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Clean up."""
    if _RUN in config.stash:
        config.stash[_RUN].end()


@pytest.fixture(scope="session")
def tasks_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run, with Django set up and test databases made."""
    if _RUN not in request.config.stash:
        pytest.skip("--tasks-backend names no backend")
    run = request.config.stash[_RUN]
    if request.config.pluginmanager.hasplugin("django"):  # which wants a mark on each test that asks a database
        from pytest_django.plugin import blocking_manager_key  # noqa: PLC0415

        request.config.stash[blocking_manager_key].unblock()
    from django.db import connections  # noqa: PLC0415
    from django.test.utils import override_settings, setup_databases, teardown_databases  # noqa: PLC0415

    # A second run in one process finds Django set up; the backend is its own all the same.
    with override_settings(TASKS=run.tasks):
        made = setup_databases(verbosity=0, interactive=False)
        run.name_databases({each.alias: str(each.settings_dict["NAME"]) for each in connections.all()})
        yield run
        teardown_databases(made, verbosity=0)


@pytest.fixture
def bench(tasks_run: Run) -> Iterator[Any]:
    """A bench for one check, over empty tables."""
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    from .bench import Bench, Bounds  # noqa: PLC0415

    options = tasks_run.options
    yield Bench(options.tasks_drain, Bounds(options.tasks_bound, options.tasks_crash_bound), tasks_run.folder)
    for connection in connections.all():
        if connection.in_atomic_block:  # a check that failed in the midst of one
            connection.close()
        call_command(
            *("flush",),
            verbosity=0,
            interactive=False,
            database=connection.alias,
            reset_sequences=False,
            allow_cascade=True,
            inhibit_post_migrate=True,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note how each check ended."""
    found: Any = yield
    run = item.config.stash.get(_RUN, None)
    name = getattr(item, "callspec", None) and item.callspec.params.get("name")  # type: ignore[attr-defined]
    if run is not None and name and (found.when == "call" or not found.passed):
        run.report.note(name, found.outcome, call.excinfo)
    return found  # type: ignore[no-any-return]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the sentences of what failed and the reasons of what was left out, and write the report."""
    run = config.stash.get(_RUN, None)
    if run is not None and run.report.has_any:
        terminalreporter.section("django.tasks conformance")
        for line in run.report.lines():
            terminalreporter.write_line(line)
        if run.options.tasks_report:
            Path(run.options.tasks_report).write_text(run.report.table())
