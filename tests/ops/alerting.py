"""What the tests of alerts have in common: one look, rules that fire at once, and time that passes."""

from collections.abc import Callable
from typing import Any

from django.db import connection
from pytest_django import Settings

from jobqueue.alerting import BUILT_IN
from jobqueue.maintenance.alerts import Evaluation, evaluate
from jobqueue.models import Incident, Job

HOOK = "https://ops.example.org/hook"
State = Incident.State
#: Rules that fire and end at the first look, so that a test moves no time but its own.
AT_ONCE = {"for_seconds": 0, "clear_for_seconds": 0, "cooldown_seconds": 0}

Rules = Callable[..., None]


def chooser(settings: Settings) -> Rules:
    """Return the function that sets the rules: rules(dead_1h=2, x={...}); all others are off."""
    # Somebody to be told; nothing is sent, since no worker runs.
    settings.JOBQUEUE = {"ALERT_WEBHOOKS": [HOOK]}

    def choose(**given: Any) -> None:
        settings.JOBQUEUE = {**settings.JOBQUEUE, "ALERTS": {**dict.fromkeys(BUILT_IN), **given}}

    return choose


def look() -> Evaluation:
    return evaluate("default")


def only() -> Incident:
    return Incident.objects.get()


def age_everything(seconds: float) -> None:
    """Let time pass for the incidents: all that happened to them happened that much longer ago."""
    columns = ("broken_since", "calm_since", "fired_at", "resolved_at", "fired_told_at", "resolved_told_at")
    shifted = ", ".join(f"{name} = {name} - make_interval(secs => %(by)s)" for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobqueue_incident SET {shifted}", {"by": seconds})


def alert_jobs() -> list[int]:
    return [job.payload["incident"] for job in Job.objects.filter(job_type="jobqueue.alert").order_by("id")]
