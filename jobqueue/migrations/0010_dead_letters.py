"""Dead letters of one queue and of one type, and attempts that cost something, by small indexes: built beside the traffic."""

from django.db import migrations, models

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
            index=models.Index(fields=["job_type", "finished_at", "id"], condition=DEAD, name="jobqueue_job_dead_type"),
        ),
        BuildIndex(
            model_name="attempt",
            index=models.Index(fields=["finished_at"], condition=~models.Q(cost=0), name="jobqueue_attempt_cost"),
        ),
    ]
