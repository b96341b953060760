"""Addresses of the pages for machines; included by the project, as below `jobqueue/`."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "jobqueue"

urlpatterns = [
    path("ops", views.ops, name="ops"),
    path("health/live", views.live, name="live"),
    path("health/ready", views.ready, name="ready"),
    path("metrics", views.metrics, name="metrics"),
]
