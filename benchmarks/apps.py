"""The application of the benchmarks' settings: in the worker's own process it can write down what claims take."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from django.apps import AppConfig

#: Names a file that gets a line a claim: the rows claimed, and the seconds that it took.
CLAIMS_VARIABLE = "BENCHMARKS_CLAIMS"


class BenchmarksConfig(AppConfig):
    """The handlers that are measured, and a stop-watch."""

    name = "benchmarks"

    def ready(self) -> None:
        """Time the claims, where a measurement asks for it."""
        if path := os.environ.get(CLAIMS_VARIABLE):
            _time_claims(path)


def _time_claims(path: str) -> None:
    from jobqueue.managers import leasing

    claim = leasing.claim

    @functools.wraps(claim)
    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        jobs = claim(*arguments, **options)
        seconds = time.perf_counter() - began
        if jobs:
            with open(path, "a") as file:  # noqa: PTH123  (a path object costs more than the line)
                file.write(f"{len(jobs)} {seconds:.6f}\n")
        return jobs

    leasing.claim = timed
