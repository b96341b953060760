"""The pages that are made from the code are what would be made of it now."""

import os
import re
from pathlib import Path

import pytest

from tests.docs import reference_api, reference_sql
from tests.docs.pages import name_of
from tests.docs.reference import PAGES

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, scope="module")
def plans_kept() -> None:
    """Take over what the tests of plans saw, where `make reference` had them write it."""
    if seen := os.environ.get("JOBQUEUE_KEEP_PLANS"):
        reference_sql.keep_plans(Path(seen))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_is_what_would_be_made_now(page: Path) -> None:
    text = PAGES[page]()
    if os.environ.get("JOBQUEUE_KEEP_PLANS"):
        page.write_text(text, encoding="utf-8")

    assert page.read_text(encoding="utf-8") == text, f"{name_of(page)}: run `make reference`"


def test_every_statement_tells_its_purpose_its_locks_and_its_index() -> None:
    found = reference_sql.statements()

    assert len(found) > 80
    assert [
        each.name for each in found if not each.purpose.endswith((".", ":")) or {*reference_sql.PARTS} - {*each.parts}
    ] == []


def test_every_index_that_a_header_names_exists() -> None:
    existing = {name for _, name, _ in reference_sql.indexes()}
    named = {
        (each.name, index)
        for each in reference_sql.statements()
        for index in re.findall(r"jobqueue_\w+_\w+", each.parts["Index"])
    }

    assert len(named) > 30
    assert sorted(pair for pair in named if pair[1] not in existing) == []


def test_every_plan_that_was_kept_is_of_a_statement_and_of_indexes_that_exist() -> None:
    existing = {name for _, name, _ in reference_sql.indexes()}
    names = {each.name for each in reference_sql.statements()}

    for name, used in reference_sql.planned().items():
        assert name in names
        assert set(used) <= existing, name


def test_a_header_names_the_indexes_of_its_plans() -> None:
    """But primary keys, and those of the small tables that hold a row a queue, host, worker or budget."""
    small = re.compile(r"_pkey$|_like$|jobqueue_(queue|host|worker|budget)_")
    headers = {each.name: each.parts["Index"] for each in reference_sql.statements()}

    missing = [
        (name, index)
        for name, used in reference_sql.planned().items()
        for index in used
        if not small.search(index) and index not in headers[name]
    ]

    assert missing == []


def test_every_public_name_is_documented() -> None:
    silent = [
        f"{section.prefix}{name}"
        for section in reference_api.sections()
        for name, each in section.members
        if not isinstance(each, str) and not reference_api.doc(each)
    ]

    assert silent == []
