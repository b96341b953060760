"""Workers: who is alive, what each serves, how busy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobqueue.conf import lease
from jobqueue.models import Worker
from jobqueue.models.expressions import StatementTimestamp

from .base import ReadOnlyAdmin
from .wording import instant_of, span

if TYPE_CHECKING:
    from django.db.models import QuerySet


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The workers that were heard of within the last ten leases."""

    view_permission = "jobqueue.view_worker"
    list_display = ("name", "hostname", "pid", "state", "serves", "load", "heard", "started", "version")
    fields = (
        *("worker_id", "name", "hostname", "pid", "version", "state", "serves", "types", "load"),
        *("started", "heartbeat", "claimed", "idle"),
    )
    readonly_fields = fields
    started = instant_of("started_at", _("started"))
    heartbeat = instant_of("heartbeat_at", _("heartbeat"))
    claimed = instant_of("claimed_at", _("last good claim"))
    idle = instant_of("idle_since", _("idle since"))
    ordering = ("name", "worker_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the workers with the time since their heartbeat, by the database's clock."""
        age = ExpressionWrapper(StatementTimestamp() - F("heartbeat_at"), output_field=DurationField())
        rows: QuerySet[Any] = super().get_queryset(request).annotate(age=age)
        return rows

    @admin.display(description=_("state"))
    def state(self, worker: Any) -> Any:
        """Return how it stands in one word."""
        if worker.age > lease():
            return _("not heard of")
        if worker.stopping:
            return _("stopping")
        return _("idle") if worker.idle_since else _("working")

    @admin.display(description=_("queues"))
    def serves(self, worker: Worker) -> str:
        """Return the queues that it serves."""
        return ", ".join(worker.queues)

    @admin.display(description=_("types"))
    def types(self, worker: Worker) -> Any:
        """Return the types that it serves."""
        return ", ".join(worker.job_types) or _("every type")

    @admin.display(description=_("jobs held / slots"))
    def load(self, worker: Worker) -> str:
        """Return how many jobs it holds for how many slots."""
        return f"{worker.busy} / {worker.slots}"

    @admin.display(description=_("last heard of"))
    def heard(self, worker: Any) -> Any:
        """Return how long ago its heartbeat came."""
        return _("%(age)s ago") % {"age": span(worker.age)}
