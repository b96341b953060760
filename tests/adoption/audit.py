"""Ask an advisory service about each pinned package, by pip-audit: `make security`.

A weakness that is found ends with status 1. A network without such a service is told of and is no failure: then nothing
was audited, and the last line says so. A weakness that does not concern this project is named in IGNORED, with why.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from .building import ROOT

#: Advisory → why it is none of ours; an entry that no longer matches anything is reported.
IGNORED: Final[Mapping[str, str]] = {}
OPTIONS: Final = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", "10", "--format", "json")
NETWORK: Final = re.compile(
    r"\b(ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|ServiceError|HTTPError)\b"
)


class Verdict:
    """What is to be told, and the exit status."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.status = 0

    def fail(self, line: str) -> None:
        """Tell something that ends the build."""
        self.lines.append(line)
        self.status = 1


def judge(output: str, errors: str, code: int, ignored: Mapping[str, str] = IGNORED) -> Verdict:
    """Judge what one run of pip-audit printed, and how it ended."""
    verdict = Verdict()
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        last = (errors.strip().splitlines() or ["nothing was said"])[-1]
        if NETWORK.search(errors):
            verdict.lines.append(
                f"NOTE: nothing was audited: no advisory service can be reached from here ({last[:160]})"
            )
        else:
            verdict.fail(f"pip-audit ended with status {code}: {last}")
        return verdict
    asked = [package for package in packages if "skip_reason" not in package]
    met = set()
    for package in asked:
        for weakness in package["vulns"]:
            names = {weakness["id"], *weakness.get("aliases", [])}
            met |= names & set(ignored)
            if not names & set(ignored):
                fixed = ", ".join(weakness.get("fix_versions", [])) or "no version"
                verdict.fail(f"{package['name']} {package['version']}: {weakness['id']}, fixed in {fixed}")
    if asked:
        for name in sorted(set(ignored) - met):
            verdict.fail(f"{name} is ignored, but concerns no pinned package any more: take it out of IGNORED")
        verdict.lines.append(f"{len(asked)} of {len(packages)} pinned packages were audited")
    else:
        verdict.lines.append(
            f"NOTE: none of {len(packages)} pinned packages was audited: the advisory service does not answer from this"
            " network; run `make security` where it does"
        )
    return verdict


def main() -> int:
    """Audit requirements.txt, of which requirements/demo.txt is a part; returns the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "requirements.txt"), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict = judge(done.stdout, done.stderr, done.returncode)
    print("\n".join(verdict.lines))
    return verdict.status


if __name__ == "__main__":
    raise SystemExit(main())
