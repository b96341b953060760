"""The settings of one small Django project for all peers that live in one; PEER_DJANGO says which of them it is.

Alike for all, in both their default and their tuned form: the newest Django that the peer supports, DEBUG off, log
level WARNING (a line a job would be measured too), and connections that stay open (CONN_MAX_AGE=None), as anybody
has them who looks at speed: the three that were measured with Django's default too did a fifth.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from .base import DSN, TUNED

_parts = urlsplit(DSN)

SECRET_KEY = "only for the benchmarks of one machine"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(_parts.path.lstrip("/")),
        "HOST": _parts.hostname,
        "PORT": _parts.port,
        "USER": unquote(_parts.username or ""),
        "PASSWORD": unquote(_parts.password or ""),
        "CONN_MAX_AGE": None,
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"level": "WARNING", "handlers": ["stderr"]},
}


def _backend(path: str, **more: Any) -> dict[str, Any]:
    return {"TASKS": {"default": {"BACKEND": path, **more}}}


def _django_tasks_db() -> dict[str, Any]:
    return {"INSTALLED_APPS": [*INSTALLED_APPS, "django_tasks_db"], **_backend("django_tasks_db.DatabaseBackend")}


def _django_ox() -> dict[str, Any]:
    return {"INSTALLED_APPS": [*INSTALLED_APPS, "django_ox"], **_backend("django_ox.backend.OxBackend")}


def _dj_queue() -> dict[str, Any]:
    worker = {"queues": "default", "threads": 5, "processes": 2, "prefetch_multiplier": 10}
    options = {"workers": [worker], "preserve_finished_jobs": False} if TUNED else {}
    return {
        "INSTALLED_APPS": [*INSTALLED_APPS, "dj_queue"],
        "DATABASE_ROUTERS": ["dj_queue.routers.DjQueueRouter"],
        **_backend("dj_queue.backend.DjQueueBackend", QUEUES=[], OPTIONS=options),
    }


def _django_vtasks() -> dict[str, Any]:
    return {
        "INSTALLED_APPS": [*INSTALLED_APPS, "django_vtasks", "django_vtasks.db"],
        **_backend("django_vtasks.backends.db.DatabaseTaskBackend"),
    }


def _django_vtasks_batch() -> dict[str, Any]:
    return {**_django_vtasks(), "VTASKS_QUEUES": {"default": {"batch": {"count": 500, "timeout": 5.0}}}}


def _steady_queue() -> dict[str, Any]:
    backend = _backend("steady_queue.backend.SteadyQueueBackend", QUEUES=["default"], OPTIONS={})
    site = {"INSTALLED_APPS": [*INSTALLED_APPS, "steady_queue"], **backend}
    if TUNED:
        from steady_queue.configuration import Configuration

        worker = Configuration.Worker(
            queues=["default"], threads=5, processes=2, polling_interval=timedelta(seconds=0.01)
        )
        site["STEADY_QUEUE"] = Configuration.Options(workers=[worker])
        # It closes the connections of a thread after every job, whatever CONN_MAX_AGE says: only a pool keeps them.
        DATABASES["default"].update(CONN_MAX_AGE=0, OPTIONS={"pool": {"min_size": 2, "max_size": 20}})
    return site


def _django_q2() -> dict[str, Any]:
    # timeout and retry: without them it warns at each start that tasks may run twice.
    cluster = {"name": "benchmarks", "orm": "default", "timeout": 60, "retry": 120, "log_level": "WARNING"}
    if TUNED:
        cluster |= {"bulk": 50, "queue_limit": 200, "poll": 0.02, "save_limit": -1, "recycle": 100_000}
    return {"INSTALLED_APPS": [*INSTALLED_APPS, "django_q"], "Q_CLUSTER": cluster}


SITES: dict[str, Callable[[], dict[str, Any]]] = {
    "django_tasks_db": _django_tasks_db,
    "django_ox": _django_ox,
    "dj_queue": _dj_queue,
    "django_vtasks": _django_vtasks,
    "django_vtasks_batch": _django_vtasks_batch,
    "steady_queue": _steady_queue,
    "django_q2": _django_q2,
}

globals().update(SITES[os.environ["PEER_DJANGO"]]())
