"""The no-op of the peers that are backends of django.tasks."""

from __future__ import annotations

from django.tasks import task

from .tally import mark


@task
def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)
