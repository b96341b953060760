"""Instances of new rows, built without reading the rows back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init

from .arriving import Arrival

if TYPE_CHECKING:
    from jobqueue.models import Job

Build = Callable[[dict[str, Any]], "Job"]
"""Makes an instance of the values of all its columns."""


class Row(NamedTuple):
    """What the database says of a new job."""

    id: int
    status: int
    run_after: datetime
    created_at: datetime


@cache
def _blank(model: type[Job]) -> dict[str, Any]:
    """Return the columns of a new row that an enqueue does not choose."""
    blank: dict[str, Any] = dict.fromkeys(field.attname for field in model._meta.concrete_fields)
    return blank | {"attempts": 0, "interruptions": 0, "lease_epoch": 0, "cost_total": 0, "cost_last": 0}


def new_job(model: type[Job], alias: str, arrival: Arrival, row: Row, trace: str | None = None) -> Job:
    """Return the instance of a new row without reading it back."""
    return builder_of(model, alias)(values_of(model, arrival, row, trace))


def values_of(model: type[Job], arrival: Arrival, row: Row, trace: str | None) -> dict[str, Any]:
    """Return all columns of a new row, by attribute."""
    values = chosen_of(model, arrival, trace)
    values["id"], values["status"], values["run_after"], values["created_at"] = row
    values["payload"] = arrival.value
    values["payload_bytes"] = arrival.payload_bytes
    values["dedupe_key"] = arrival.dedupe_key
    values["owner"] = arrival.owner
    values["updated_at"] = row.created_at
    return values


def chosen_of(model: type[Job], arrival: Arrival, trace: str | None) -> dict[str, Any]:
    """Return the columns of a new row as far as many jobs of a bulk have the same."""
    return _blank(model) | {
        "job_type": arrival.job_type,
        "queue": arrival.queue,
        "priority": arrival.priority,
        "max_attempts": arrival.max_attempts,
        "task_backend": arrival.task_backend,
        "trace_context": trace,
    }


def builder_of(model: type[Job], alias: str) -> Build:
    """Return the function that makes instances of rows on a database."""
    # Model.__init__ takes ten times as long as all the checks of a job: it asks 35 fields for their defaults.
    # Asking whether a model has receivers takes longer than asking whether any has.
    if (pre_init.receivers or post_init.receivers) and (
        pre_init.has_listeners(model) or post_init.has_listeners(model)
    ):
        return lambda values: model.from_db(alias, list(values), list(values.values()))

    def build(values: dict[str, Any]) -> Job:
        job = model.__new__(model)
        job.__dict__ = values
        job._state = state = ModelState()
        state.adding, state.db = False, alias
        return job

    return build
