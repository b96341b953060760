"""The kit finds each fault, and nothing else: one broken backend for each check, and a whole one."""

import ast
from pathlib import Path

import pytest

from .kit import TOY, kit

CRASHES = {
    "a_killed_worker_leaves_nothing_running",
    "a_stopped_worker_leaves_nothing_running",
    "a_task_that_is_killed_does_not_stay_running",
    "a_task_that_leaves_its_process_does_not_stay_running",
}
WHOLE = "tests.conformance.toy.backend.ToyBackend"


def broken_ones() -> dict[str, str]:
    """Return name → path, read from the sources: the modules' table belongs to the toy's project, not to ours."""
    found = {}
    for module in ("broken", "broken_at_work"):
        for node in ast.parse(Path(__file__).with_name(f"{module}.py").read_text()).body:
            made = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else getattr(node, "name", "_")
            if not made.startswith("_"):
                found[made] = f"tests.conformance.{module}.{made}"
    return found


BROKEN = broken_ones()
QUICK = sorted(set(BROKEN) - CRASHES)
BATCHES = 4
#: Skipped by a backend that can do all there is.
UNUSED = {"what_is_not_supported_is_refused"}


def test_a_whole_backend_passes_and_every_check_has_a_broken_one() -> None:
    found = kit(WHOLE, *TOY)[WHOLE]

    assert found["failed"] == []
    assert set(found["skipped"]) == CRASHES | UNUSED
    assert {name for names in found.values() for name in names} == set(BROKEN)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_fault_fails_its_own_check_and_no_other(batch: int) -> None:
    names = QUICK[batch::BATCHES]

    found = kit(",".join(BROKEN[name] for name in names), *TOY)

    assert {name: found[BROKEN[name]]["failed"] for name in names} == {name: [name] for name in names}


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["", *sorted(CRASHES)])
def test_a_crash_fault_fails_its_own_check_and_no_other(name: str) -> None:
    backend = BROKEN[name] if name else WHOLE

    settings, _ = TOY
    found = kit(backend, settings, "--tasks-drain=manage.py toyworker", "--tasks-crash-bound=10", "-k", "running")

    assert found[backend]["failed"] == [name][: bool(name)]
    assert set(found[backend]["passed"]) >= CRASHES - {name}


def test_a_check_that_is_left_out_says_why() -> None:
    name = "a_coroutine_runs"

    found = kit(BROKEN[name], *TOY, f"--tasks-skip={name}=not yet", "-k", "coroutine")

    assert found[BROKEN[name]] == {"passed": ["a_coroutine_fails"], "failed": [], "skipped": [name]}


def test_a_drain_that_does_nothing_is_a_failure() -> None:
    settings, _ = TOY

    found = kit(WHOLE, settings, "--tasks-drain=python:gc.collect", "-k", "a_coroutine_runs")

    assert found[WHOLE]["failed"] == ["a_coroutine_runs"]
