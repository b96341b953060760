"""A run of pytest that goes through many guards: one database, one import, one set of tests for all of them.

As a plugin (`-p tests.mutate.session`) it takes the place of pytest's loop. For each guard of JOBQUEUE_MUTATE it runs
the guard's tests without it, up to the first that fails; that one must pass with all guards in place. What it finds
goes as JSON lines to the file descriptor JOBQUEUE_MUTATE_FD.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from jobqueue import sql

from .guard import ROOT, Guard
from .table import BY_NAME

GUARDS_NAMED, ANSWERS_TO = "JOBQUEUE_MUTATE", "JOBQUEUE_MUTATE_FD"


class Nowhere(pytest.Item):
    """The test that is said to come next, so that every fixture but those of the session is torn down."""

    def runtest(self) -> None:
        """Never run."""
        raise NotImplementedError


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests of each guard without it."""
    nowhere = Nowhere.from_parent(session, name="nowhere")
    good: set[str] = set()
    for name in json.loads(os.environ[GUARDS_NAMED]):
        guard = BY_NAME[name]
        with without(guard):
            failed = first_failure(chosen(session.items, guard), nowhere)
        if failed is not None and failed.nodeid not in good:
            if first_failure([failed], nowhere):
                answer(name, failed, proves=False)
                continue
            good.add(failed.nodeid)
        answer(name, failed)
    return True


def answer(name: str, failed: pytest.Item | None, *, proves: bool = True) -> None:
    """Tell what became of one guard, and whether the test that failed passes with all guards."""
    told = failed and failed.nodeid.removeprefix("tests/")
    os.write(int(os.environ[ANSWERS_TO]), json.dumps([name, told, proves]).encode() + b"\n")


def chosen(items: Sequence[pytest.Item], guard: Guard) -> list[pytest.Item]:
    """Return a guard's tests, in the order in which it names them."""
    found: list[pytest.Item] = []
    for test in guard.tests.split():
        below = [item for item in items if named_by(item.nodeid, f"tests/{test}")]
        assert below, f"{guard.name}: there is no test {test}"
        found += below
    return found


def named_by(nodeid: str, wanted: str) -> bool:
    """Tell whether a test is, or lies below, the file or function that was named."""
    return nodeid == wanted or nodeid.startswith((f"{wanted}::", f"{wanted}["))


def first_failure(items: Iterable[pytest.Item], nowhere: pytest.Item) -> pytest.Item | None:
    """Run tests until one fails, and return that one."""
    for item in items:
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=nowhere)):
            return item
    return None


@contextmanager
def without(guard: Guard) -> Iterator[None]:
    """Take a guard out of its statement, and the one before it where it is a second line."""
    constant: Any = guard.statement.upper()
    source = (ROOT / guard.path).read_text(encoding="utf-8")
    changed = without_both(guard, source)
    assert getattr(sql, constant) == source, guard.name
    setattr(sql, constant, changed)
    try:
        yield
    finally:
        setattr(sql, constant, source)


def without_both(guard: Guard, source: str) -> str:
    """Return a source without a guard, and without the one before it where it is a second line."""
    changed = guard.cut(source)
    return BY_NAME[f"{guard.statement}: {guard.behind}"].cut(changed) if guard.behind else changed
