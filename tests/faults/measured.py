"""Keep what the scenarios measured: `measured.json`, from which docs/faults.md is made (tests.faults.report)."""

import fcntl
import json
import os
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path

import django
import pytest

from benchmarks.machine import processor

FILE = Path(__file__).with_name("measured.json")
Recovery = Callable[..., None]
FIGURES = pytest.StashKey[list[list[object]]]()
PASSED = pytest.StashKey[bool]()


@pytest.fixture
def recovery(request: pytest.FixtureRequest) -> Recovery:
    """Return the function that records a measured figure and asserts its bound.

    recovery("all jobs runnable again", 5.3, within=12): seconds by default, or unit="times" and the like.
    """
    figures = request.node.stash.setdefault(FIGURES, [])

    def record(what: str, value: float, *, within: float, unit: str = "s") -> None:
        figures.append([what, round(value, 2), within, unit])
        assert value <= within, f"{what}: {value:.2f} {unit}, must be within {within} {unit}"

    return record


def keep(items: list[pytest.Item]) -> None:
    """Merge what this run measured into the file; only told to by `make test-faults`, never by a single test."""
    if os.environ.get("JOBQUEUE_KEEP_MEASURED") != "1":
        return
    with FILE.open("a") as lock:  # two processes of one run (pytest -n 2) end at the same moment
        fcntl.flock(lock, fcntl.LOCK_EX)
        _merge(items)


def _merge(items: list[pytest.Item]) -> None:
    kept = json.loads(FILE.read_text() or "{}")
    for item in items:
        if item.stash.get(PASSED, None) is None:
            continue
        kept[item.nodeid] = {
            "passed": item.stash[PASSED],
            "figures": item.stash.get(FIGURES, []),
        }
    existing = {item.nodeid for item in items}
    files = {nodeid.partition("::")[0] for nodeid in existing}
    # A scenario that was renamed or taken away is not shown for ever.
    kept = {
        nodeid: entry for nodeid, entry in kept.items() if nodeid in existing or nodeid.partition("::")[0] not in files
    }
    kept["_run"] = _told_of_run(sum(nodeid != "_run" for nodeid in kept))
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _told_of_run(scenarios: int) -> str:
    return (
        f"Measured on {date.today()}: {scenarios} scenarios on {os.cpu_count()} cores of {processor()},"
        f" Python {platform.python_version()}, Django {django.get_version()}."
    )
