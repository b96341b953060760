"""The fixtures of the worker's tests, for the scenarios that take longer."""

import pytest

from tests.worker.conftest import effects, enqueue, launch, proxy, status, terminate, through_proxy, wait_for

__all__ = ["effects", "enqueue", "launch", "proxy", "status", "terminate", "through_proxy", "wait_for"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if "tests/faults/" in str(item.path):
            item.add_marker(pytest.mark.faults)
