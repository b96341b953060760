"""The jobs that cost most, by an index of those that cost anything: built beside the traffic."""

from django.db import migrations, models

from jobqueue.models.building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY cannot run inside a transaction

    dependencies = [("jobqueue", "0005_operations")]

    operations = [
        BuildIndex(
            model_name="job",
            index=models.Index(
                fields=["cost_total", "id"], condition=models.Q(cost_total__gt=0), name="jobqueue_job_cost"
            ),
        ),
    ]
