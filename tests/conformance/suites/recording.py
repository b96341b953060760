"""A test runner that writes down how each test ended. Suites run with it, under their own Django."""

import json
import os
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.test.runner import DiscoverRunner


class Result(unittest.TextTestResult):
    """Keeps one end for each test: the worst, where subtests end in several ways."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ends: dict[str, list[str]] = {}

    def note(self, test: Any, end: str, reason: str = "") -> None:
        name = ".".join(test.id().split(".")[-2:])
        if self.ends.get(name, [""])[0] != "failed":
            self.ends[name] = [end, reason.strip()]

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.note(test, "failed", repr(err[1])[:300])

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self.note(test, "failed", repr(err[1])[:300])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed", repr(err[1])[:300])

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)


class Recorder(DiscoverRunner):
    def get_resultclass(self) -> Any:
        return Result

    def build_suite(self, *args: Any, **kwargs: Any) -> Any:
        """Leave out the tests of the classes that SUITE_WITHOUT names."""
        suite = super().build_suite(*args, **kwargs)
        without = os.environ.get("SUITE_WITHOUT", "").split(",")
        kept = [test for test in _flat(suite) if type(test).__name__ not in without]
        return self.test_suite(kept)

    def run_suite(self, suite: Any, **kwargs: Any) -> Any:
        result: Any = super().run_suite(suite, **kwargs)
        Path(os.environ["SUITE_RESULT"]).write_text(json.dumps(result.ends))
        return result


def _flat(suite: Any) -> Iterator[Any]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test
