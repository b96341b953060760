"""django-vtasks in its batch mode: another contract, in which a handler is called once with a list of many jobs.

A row of its own and not the tuned form of django-vtasks: the jobs of a call succeed or fail together, so it is no
alternative where each job is a call, as everywhere else in the comparison.
"""

from __future__ import annotations

from typing import Any

from . import django_vtasks


class Peer(django_vtasks.Peer):
    """The same command; the queue is a batch queue by the settings."""

    site = "django_vtasks_batch"
    settings = {"default": "runworker, queue in batch mode: 500 jobs a claim, one call with all of them, one DELETE"}

    def job(self) -> Any:
        from .django_vtasks_jobs import noop_batch

        return noop_batch
