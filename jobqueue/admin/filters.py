"""Filters whose choices cost little: the declared names and those of the newest jobs, never DISTINCT over the table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobqueue.models.job import of_type
from jobqueue.ops.limited import read_within
from jobqueue.registry import registry

if TYPE_CHECKING:
    from django.db.models import QuerySet

SAMPLE: Final = 1_000
LIMIT: Final = timedelta(milliseconds=300)


class NameFilter(admin.SimpleListFilter):
    """Chooses by one text column."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names to choose from; one that is asked for is among them, known or not."""
        index = ("queue", "job_type").index(str(self.parameter_name))
        names = {pair[index] for pair in _sampled(request, model_admin)}
        if model_admin.offers_declared:
            names |= set(self.declared())
        chosen = self.value()
        return [(name, name) for name in sorted(names | ({chosen} if chosen else set()))]

    def declared(self) -> Iterable[str]:
        """Return the names that code declares."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the chosen name."""
        value = self.value()
        return queryset if value is None else queryset.filter(**{str(self.parameter_name): value})


class QueueFilter(NameFilter):
    """Chooses a queue."""

    title = _("queue")
    parameter_name = "queue"

    def declared(self) -> Iterable[str]:
        """Return the home queues of the handlers."""
        return [handler.queue for handler in registry]


class TypeFilter(NameFilter):
    """Chooses a job type."""

    title = _("type")
    parameter_name = "job_type"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the chosen type."""
        value = self.value()
        return queryset if value is None else queryset.filter(of_type(value))

    def declared(self) -> Iterable[str]:
        """Return the types that have a handler."""
        return registry.names()


def _sampled(request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
    """Return (queue, type) of the newest rows of the page, read once a request."""
    key = f"_jobqueue_names_{model_admin.opts.model_name}"
    if not hasattr(request, key):
        rows = model_admin.get_queryset(request).order_by(*model_admin.sample_order).values_list("queue", "job_type")
        # Without them the list stands, with the names that code declares.
        read = read_within(rows.db, lambda: set(rows[:SAMPLE]), LIMIT)
        setattr(request, key, list(read or ()))
    sampled: list[tuple[str, str]] = getattr(request, key)
    return sampled
