"""What pytest collects: one test for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .registry import NotSupported

if TYPE_CHECKING:
    from .bench import Bench
    from .plugin import Run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the list; it wants Django's settings, so without a backend there is one test, which is skipped."""
    names = [""]
    if metafunc.config.getoption("tasks_backend"):
        from django.test import override_settings  # noqa: PLC0415

        from .plugin import run_of  # noqa: PLC0415

        with override_settings(TASKS=run_of(metafunc.config).tasks):
            from .checks import CHECKS  # noqa: PLC0415
        names = list(CHECKS)
    metafunc.parametrize("name", names)


def test_contract(name: str, tasks_run: Run, bench: Bench) -> None:
    """Run one check."""
    from .checks import CHECKS  # noqa: PLC0415

    if name in tasks_run.skipped:
        pytest.skip(tasks_run.skipped[name] or "left out by --tasks-skip")
    try:
        bench.require(CHECKS[name].needs)
        CHECKS[name].run(bench)
    except NotSupported as reason:
        pytest.skip(str(reason))
