"""Runs the kit on each of some broken backends, one after another in one process, and prints what failed, as JSON."""

import contextlib
import io
import json
import sys
from typing import Any

from jobqueue.testing.conformance.__main__ import main


class Failures:
    """What the kit's report says in the end."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}

    def pytest_sessionfinish(self, session: Any) -> None:
        from jobqueue.testing.conformance.plugin import run_of  # not before pytest has loaded it itself

        self.found = run_of(session.config).report.by_outcome()


def failures_of(name: str, arguments: list[str]) -> dict[str, list[str]]:
    failures = Failures()
    with contextlib.redirect_stdout(io.StringIO()) as told:
        main([f"--tasks-backend={name}", *arguments, "-q", "--no-summary"], plugins=[failures])
    return failures.found if any(failures.found.values()) else {"failed": ["no check was run", told.getvalue()]}


if __name__ == "__main__":
    names, arguments = sys.argv[1].split(","), sys.argv[2:]
    sys.stdout.write(json.dumps({name: failures_of(name, arguments) for name in names}))
