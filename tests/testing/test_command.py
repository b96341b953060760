"""`runworker` called within a test: refused, with what to use instead, and the test's connection left alone (C152)."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import TestCase, TransactionTestCase

from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import drain


def pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


class CommandInTestCaseTests(TestCase):
    """Where the test's transaction never commits."""

    def test_the_command_is_refused_and_the_helper_works(self) -> None:
        job, before = Job.objects.enqueue("probe.ok"), pid()
        assert job is not None

        for name in ("runworker", "jobqueue_worker"):
            with pytest.raises(CommandError, match=r"jobqueue\.testing\.drain\(\)"):
                call_command(name, "--drain")

        assert (pid(), connection.in_atomic_block) == (before, True)
        assert drain() == [(job.pk, Status.DONE)]


class CommandWithCommitsTests(TransactionTestCase):
    """Where it commits, but to a database that the worker's children do not know of."""

    def test_the_command_is_refused_and_the_helper_works(self) -> None:
        job, before = Job.objects.enqueue("probe.ok"), pid()
        assert job is not None

        with pytest.raises(CommandError, match=r"jobqueue\.testing\.drain\(\)"):
            call_command("runworker", "--drain")

        assert pid() == before
        assert drain() == [(job.pk, Status.DONE)]
