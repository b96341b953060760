"""The examples of the pages compile, and those that a reader copies first do what they say."""

import hashlib
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group

from jobqueue.models import Job
from jobqueue.registry import registry
from jobqueue.states import Status
from jobqueue.testing import run_once
from tests.docs.pages import ROOT, Block, blocks, name_of, pages

README = ROOT / "README.md"
HANDLERS, TESTING = ROOT / "docs" / "handlers.md", ROOT / "docs" / "testing.md"
Execute = Callable[[Block], dict[str, Any]]

EXAMPLES = [block for page in pages() for block in blocks(page)]


def block_with(page: Path, text: str) -> Block:
    """Return the first example of a page that contains the text."""
    return next(block for block in blocks(page) if text in block.text)


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Return the function that runs an example as a module of its own; what it declares is forgotten afterwards."""
    monkeypatch.chdir(ROOT)
    registry.load()
    for name in ("_handlers", "_aliases"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))

    def run(block: Block) -> dict[str, Any]:
        namespace: dict[str, Any] = {"__name__": "shop.jobs"}
        exec(compile(block.text, name_of(block.page), "exec"), namespace)
        return namespace

    return run


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"{block.page.stem}-{EXAMPLES.index(block)}")
def test_the_examples_compile(block: Block) -> None:
    compile(block.text, name_of(block.page), "exec")


@pytest.mark.django_db
def test_the_example_of_the_readme_enqueues_and_runs(execute: Execute) -> None:
    execute(block_with(README, "@job("))
    enqueued = execute(block_with(README, "transaction.atomic()"))["job"]

    assert run_once() == [(enqueued.pk, Status.DONE)]

    digest = hashlib.sha256(Path("manage.py").read_bytes()).hexdigest()
    assert Job.objects.get().result == {"sha256": digest}


@pytest.mark.django_db
def test_the_ways_to_enqueue_of_the_handlers_page_work(execute: Execute) -> None:
    execute(block_with(HANDLERS, "shop.invoice"))

    names = execute(block_with(HANDLERS, "enqueue_many("))

    assert names["later"].status == Status.SCHEDULED
    assert names["created"] is False
    assert names["job"].pk == names["once"].pk
    assert len(names["jobs"]) == 1000


@pytest.mark.django_db
def test_the_database_effect_of_the_handlers_page_ends_its_job(execute: Execute) -> None:
    execute(block_with(HANDLERS, "context.complete("))
    Job.objects.enqueue("shop.add_group", {"name": "editors"})

    assert [status for _, status in run_once()] == [Status.DONE]

    assert Job.objects.get().result == {"group": Group.objects.get(name="editors").pk}


@pytest.mark.django_db
def test_the_test_case_of_the_testing_page_passes(execute: Execute) -> None:
    execute(block_with(HANDLERS, "shop.invoice"))
    case = execute(block_with(TESTING, "TestCase"))["InvoiceTests"]
    result = unittest.TestResult()

    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)

    assert (result.testsRun, result.failures, result.errors) == (2, [], [])
