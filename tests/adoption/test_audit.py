"""A known weakness of a pinned package ends the build; a network without an advisory service is told of instead."""

import json
from typing import Any

import pytest

from tests.adoption.audit import judge

WEAKNESS = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-0001"], "fix_versions": ["5.2.20"], "description": "…"}
SKIPPED = {"name": "httpx", "skip_reason": "Dependency not found on PyPI and could not be audited: httpx (0.28.1)"}


def package(*weaknesses: dict[str, Any]) -> dict[str, Any]:
    return {"name": "django", "version": "5.2.19", "vulns": list(weaknesses)}


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_a_weakness_ends_the_build_and_is_told_with_the_version_that_mends_it() -> None:
    verdict = judge(report(package(WEAKNESS), SKIPPED), "", 1)

    assert verdict.status == 1
    assert verdict.lines == [
        "django 5.2.19: PYSEC-2026-1, fixed in 5.2.20",
        "1 of 2 pinned packages were audited",
    ]


@pytest.mark.parametrize("name", ["PYSEC-2026-1", "CVE-2026-0001"])
def test_a_weakness_that_is_none_of_ours_does_not(name: str) -> None:
    assert judge(report(package(WEAKNESS)), "", 1, {name: "we run no such server"}).status == 0


def test_an_exception_for_what_is_gone_has_to_go() -> None:
    verdict = judge(report(package()), "", 0, {"PYSEC-2026-1": "we run no such server"})

    assert verdict.status == 1
    assert verdict.lines[0].startswith("PYSEC-2026-1 is ignored, but concerns no pinned package any more")


def test_without_a_weakness_it_tells_how_many_were_audited() -> None:
    verdict = judge(report(package()), "", 0)

    assert (verdict.status, verdict.lines) == (0, ["1 of 1 pinned packages were audited"])


def test_where_no_package_could_be_audited_it_says_so_and_goes_on() -> None:
    verdict = judge(report(SKIPPED, SKIPPED), "", 0)

    assert verdict.status == 0
    assert verdict.lines[0].startswith("NOTE: none of 2 pinned packages was audited")


def test_a_network_without_the_service_is_no_failure() -> None:
    verdict = judge("", "Traceback …\nrequests.exceptions.ConnectionError: failed to resolve", 1)

    assert verdict.status == 0
    assert verdict.lines[0].startswith("NOTE: nothing was audited")


def test_an_audit_that_breaks_for_another_reason_ends_the_build() -> None:
    verdict = judge("", "usage: pip-audit\npip-audit: error: unrecognized arguments: --fresh", 2)

    assert verdict.status == 1
    assert verdict.lines == ["pip-audit ended with status 2: pip-audit: error: unrecognized arguments: --fresh"]
