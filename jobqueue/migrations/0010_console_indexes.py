"""Indexes of the console, built beside the traffic.

Dead letters of one queue and of one type, attempts that cost something, the audit and the incidents of a rule.
"""

from django.db import migrations, models
from django.db.models.functions import Left

from jobqueue.models.building import BuildIndex

DEAD = models.Q(("status", 4))


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY cannot run inside a transaction

    dependencies = [("jobqueue", "0009_tasks")]

    operations = [
        BuildIndex(
            model_name="job",
            index=models.Index(fields=["queue", "finished_at", "id"], condition=DEAD, name="jobqueue_job_dead_queue"),
        ),
        BuildIndex(
            model_name="job",
            # Cut: a type that a row written by hand has is of any length, an entry of an index is not.
            index=models.Index(
                Left("job_type", 63),
                models.F("finished_at"),
                models.F("id"),
                condition=DEAD,
                name="jobqueue_job_dead_type",
            ),
        ),
        BuildIndex(
            model_name="attempt",
            index=models.Index(fields=["finished_at"], condition=~models.Q(cost=0), name="jobqueue_attempt_cost"),
        ),
        BuildIndex(model_name="action", index=models.Index(fields=["at", "id"], name="jobqueue_action_time")),
        BuildIndex(model_name="action", index=models.Index(fields=["actor", "at", "id"], name="jobqueue_action_actor")),
        BuildIndex(
            model_name="action", index=models.Index(fields=["action", "at", "id"], name="jobqueue_action_action")
        ),
        BuildIndex(
            model_name="action",
            index=models.Index(
                fields=["subject", "id"], condition=~models.Q(subject=""), name="jobqueue_action_subject"
            ),
        ),
        BuildIndex(
            model_name="action",
            index=models.Index(fields=["at", "id"], condition=models.Q(refused=True), name="jobqueue_action_refused"),
        ),
        BuildIndex(
            model_name="incident", index=models.Index(fields=["rule", "-broken_since"], name="jobqueue_incident_rule")
        ),
    ]
