"""The handlers of these tests."""

import pytest

from jobqueue.handlers import Handler
from jobqueue.registry import registry

from .handlers import HANDLERS


@pytest.fixture(autouse=True)
def inside_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register "inside.<function>" for each handler, for the length of one test."""
    registry.load()
    for function in HANDLERS:
        handler = Handler(function, f"inside.{function.__name__}")
        monkeypatch.setitem(registry._handlers, handler.name, handler)
