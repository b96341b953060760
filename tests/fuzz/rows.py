"""Write rows by SQL, past every verb, and look at them on every page."""

from collections.abc import Iterable
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse

from jobqueue.models import Attempt, Job

LISTS = ("job", "deadletter", "stuckjob", "cost", "worker", "action")


def insert(row: dict[str, Any]) -> int | None:
    """Insert one row of the jobs' table; returns its id, None where the database itself refuses it."""
    values = {"job_type": "probe.ok"} | row
    places, parameters = [], []
    for value in values.values():
        seconds = value[4:] if isinstance(value, str) and value.startswith("now:") else None
        places.append("%s" if seconds is None else "statement_timestamp() + make_interval(secs => %s)")
        parameters.append(value if seconds is None else int(seconds))
    statement = f"INSERT INTO jobqueue_job ({', '.join(values)}) VALUES ({', '.join(places)}) RETURNING id"
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return int(cursor.fetchone()[0])
    except DatabaseError:
        return None


def look_at_every_page(client: Client, ids: Iterable[int]) -> None:
    """Read every list and every page of these jobs, and take the figures: an error would be raised here."""
    for name in LISTS:
        assert client.get(reverse(f"admin:jobqueue_{name}_changelist")).status_code == 200, name
    for status in (1, 2, 3, 4, 5, 7, 99):
        assert client.get(reverse("admin:jobqueue_job_changelist"), {"status__exact": status}).status_code in (200, 302)
    look_at_jobs(client, ids)
    assert Job.objects.ops().to_json()


def look_at_jobs(client: Client, ids: Iterable[int]) -> None:
    """Read the pages of these jobs and of their attempts."""
    for pk in ids:
        assert client.get(reverse("admin:jobqueue_job_change", args=[pk])).status_code == 200
        for part in ("payload", "result", "progress"):
            assert client.get(reverse("admin:jobqueue_job_json", args=[pk, part])).status_code in (200, 404)
    for pk in Attempt.objects.filter(job_id__in=ids).values_list("pk", flat=True):
        assert client.get(reverse("admin:jobqueue_attempt_change", args=[pk])).status_code == 200


def act_on_each(client: Client, ids: Iterable[int]) -> None:
    """Try every action on every job: it is done or refused, and told."""
    for pk in ids:
        for verb in ("release", "cancel", "retry", "discard"):
            assert client.post(reverse("admin:jobqueue_job_act", args=[pk, verb])).status_code == 302
