"""The verbs over rows that no verb would have written: one of them fails nothing for the others."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.models import Job, Stat
from jobqueue.states import ACTIVE, Status
from jobqueue.testing import run_once

from .rows import insert
from .values import ROWS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet")]


@given(rows=st.lists(ROWS, min_size=1, max_size=8))
def test_claims_and_maintenance_go_on_whatever_the_rows_hold(rows: list[dict[str, Any]]) -> None:
    """Each row that is due runs to an end, the good one beside them too; sums stay finite."""
    with transaction.atomic():
        ids = [pk for row in rows if (pk := insert(row)) is not None]
        good = Job.objects.enqueue("probe.echo", {"value": 7}, priority=100)

        Job.objects.reap()
        ran = dict(run_once(100))
        moving.seconds_to_next_due(Job.objects.run_sql)
        for status in (Status.DONE, Status.DEAD, Status.CANCELLED):
            Job.objects.prune(status=status, age=timedelta(days=1), keep=[good.pk])
        for statement in (sql.FOLD_STATS, sql.FOLD_COSTS):
            moving.fold(
                Job.objects.run_sql, statement=statement, from_span=0, to_span=60, age=timedelta(0), limit=1_000
            )

        assert ran[good.pk] == Status.DONE
        assert Job.objects.get(pk=good.pk).result == 7
        due = Job.objects.filter(pk__in=ids, status=Status.PENDING)
        assert not due.exists(), "a due job was left"
        for waited, seconds in Stat.objects.values_list("wait_seconds", "run_seconds"):
            assert 0 <= waited < 1e12
            assert 0 <= seconds < 60
        transaction.set_rollback(True)


@given(rows=st.lists(ROWS, min_size=1, max_size=8))
def test_people_and_code_may_act_on_every_row(rows: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        ids = [pk for row in rows if (pk := insert(row)) is not None]

        for act in (Job.objects.release_stuck, Job.objects.redrive, Job.objects.cancel, Job.objects.discard):
            moved = act(ids)
            assert set(moved.changed) | set(moved.refused) == set(ids)

        left = Job.objects.filter(pk__in=ids, status__in=set(ACTIVE) - {Status.RUNNING, Status.WAITING})
        assert not left.exists()
        transaction.set_rollback(True)
