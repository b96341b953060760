"""The fixtures of the worker's tests for the fault suite, with the universal checks after each scenario."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.conftest import (
    Launch,
    check_all,
    effects,
    enqueue,
    proxy,
    status,
    terminate,
    through_proxy,
    wait_for,
    workers_below,
)
from tests.worker.effects import Effects
from tests.worker.forwarder import Forwarder

from . import measured
from .big import big_table, big_template, scale_server, scale_table
from .measured import recovery
from .universal import check_scenario

__all__ = [
    "big_table",
    "big_template",
    "effects",
    "enqueue",
    "proxy",
    "recovery",
    "scale_server",
    "scale_table",
    "status",
    "terminate",
    "through_proxy",
    "wait_for",
]


@pytest.fixture
def launch(
    worker_env: dict[str, str], tmp_path: Path, effects: Effects, proxy: Forwarder, request: pytest.FixtureRequest
) -> Iterator[Launch]:
    """Return the function that starts a worker, as in tests/worker; a test that passed is checked further."""
    with workers_below(tmp_path, worker_env, effects.conninfo) as (launch_one, workers):
        yield launch_one
        if request.node.stash.get(measured.PASSED, False):
            proxy.heal()
            check_scenario(workers, launch_one, effects)
            check_all(workers)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
    """Remember whether a scenario passed; what fails in the checks after it counts too."""
    report = yield
    if report.when == "call":
        item.stash[measured.PASSED] = report.passed
    elif report.failed:
        item.stash[measured.PASSED] = False
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if "tests/faults/" in str(item.path):
            item.add_marker(pytest.mark.faults)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was measured, where `make test-faults` asks for it."""
    measured.keep([item for item in session.items if "tests/faults/" in str(item.path)])
