"""Run due jobs in the test's own process: run_once(), drain(), measured(). See the module running.

They are looked up on first use: the conformance kit beside them is loaded by pytest before Django has settings, and in
projects that have no table of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .running import WORKER_ID, drain, measured, run_once

__all__ = ["WORKER_ID", "drain", "measured", "run_once"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import running  # noqa: PLC0415

    return getattr(running, name)
