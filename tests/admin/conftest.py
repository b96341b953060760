"""Clients of people with and without permissions, and the addresses of the pages."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.models import Job

VERBS = ("retry", "discard", "cancel", "release")
ALL = ("view_job", "view_worker", "view_audit", "view_cost", *(f"{verb}_job" for verb in VERBS))

JOBS = "admin:jobqueue_job_changelist"
DEAD = "admin:jobqueue_deadletter_changelist"
STUCK = "admin:jobqueue_stuckjob_changelist"
COSTS = "admin:jobqueue_cost_changelist"
WORKERS = "admin:jobqueue_worker_changelist"
ACTIONS = "admin:jobqueue_action_changelist"


def page_of(job: Job) -> str:
    """Return the address of a job's page."""
    return reverse("admin:jobqueue_job_change", args=[job.pk])


def act_url(job: Job, verb: str) -> str:
    """Return the address that acts on one job."""
    return reverse("admin:jobqueue_job_act", args=[job.pk, verb])


def asked_of_tables(captured: CaptureQueriesContext) -> list[str]:
    """Return the statements but those that only begin, end and limit a transaction."""
    passing = ("SAVEPOINT", "RELEASE", "ROLLBACK")
    statements = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in statements if not sql.startswith(passing) and "set_config(" not in sql]


@pytest.fixture
def client_of(db: None) -> Callable[..., Client]:
    """Return the function that logs in a staff user with these permissions: client_of("view_job", "retry_job")."""

    def log_in(
        *codenames: str, username: str = "operator", is_staff: bool = True, enforce_csrf_checks: bool = False
    ) -> Client:
        user = User.objects.create_user(username, is_staff=is_staff)
        permissions = Permission.objects.filter(content_type__app_label="jobqueue", codename__in=codenames)
        assert permissions.count() == len(codenames)
        user.user_permissions.set(permissions)
        client = Client(enforce_csrf_checks=enforce_csrf_checks)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def operator(client_of: Callable[..., Client]) -> Client:
    """Return the client of somebody who may do everything."""
    return client_of(*ALL)
