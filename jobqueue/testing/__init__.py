"""What tests of a project use: run due jobs, eager mode, what was enqueued, time travel. See docs/testing.md.

They are looked up on first use: the pytest plugins beside them are loaded before Django has settings, and in projects
that have no table of ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .asserting import assert_enqueued, assert_not_enqueued
    from .capturing import CapturedJobs, capture_jobs
    from .eagerness import eager
    from .running import WORKER_ID, drain, measured, run_once
    from .travelling import due_now, travel

__all__ = [
    "WORKER_ID",
    "CapturedJobs",
    "assert_enqueued",
    "assert_not_enqueued",
    "capture_jobs",
    "drain",
    "due_now",
    "eager",
    "measured",
    "run_once",
    "travel",
]

_MODULES: Final = {
    "asserting": ("assert_enqueued", "assert_not_enqueued"),
    "capturing": ("CapturedJobs", "capture_jobs"),
    "eagerness": ("eager",),
    "running": ("WORKER_ID", "drain", "measured", "run_once"),
    "travelling": ("due_now", "travel"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only then."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
