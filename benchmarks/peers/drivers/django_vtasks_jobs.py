"""The no-ops of django-vtasks, which has a decorator of its own; in batch mode its handler gets a list of jobs."""

from __future__ import annotations

from typing import Any

from django_vtasks import task

from .tally import mark


@task
def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)


@task
def noop_batch(jobs: list[dict[str, Any]]) -> None:
    """Do nothing but count the runs: one call for many jobs."""
    for job in jobs:
        mark(job["args"][0])
