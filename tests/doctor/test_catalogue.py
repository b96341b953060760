"""The catalogue: every kind is used, is tested by a fault, and stands in docs/doctor.md as it is."""

import re
from pathlib import Path

from jobqueue.doctor import catalogue, examining
from jobqueue.doctor.catalogue import CATALOGUE
from tests.docs.pages import ROOT, rows

PAGE = ROOT / "docs" / "doctor.md"


def text_of(*folders: str) -> str:
    return "".join(path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def test_every_kind_is_found_by_some_check_and_no_other_is() -> None:
    code = text_of("jobqueue/doctor")
    used = {*re.findall(r'finding\(\s*"(\w+)"', code), "setting_error", "setting_warning"}

    assert used == {*CATALOGUE}
    assert Path(catalogue.__file__).parent.name == "doctor"


def test_every_kind_has_a_test_that_makes_the_fault() -> None:
    tests = text_of("tests/doctor", "tests/faults")

    assert [code for code in CATALOGUE if tests.count(f'"{code}"') == 0] == []


def test_the_page_has_the_catalogue_as_it_is() -> None:
    documented = [(row[0].strip("`"), row[1], row[2], row[3]) for row in rows(PAGE, "finding")]

    assert documented == [(code, kind.severity, kind.means, kind.do) for code, kind in CATALOGUE.items()]


def test_the_page_has_every_check() -> None:
    documented = [row[0].strip("`") for row in rows(PAGE, "check")]

    assert documented == [*examining.SETTINGS, *examining.CHECKS]
