"""The admin's pages of dead letters and stuck jobs: proxies of the job, which change nothing in the database."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobqueue", "0002_storage_parameters")]

    operations = [
        migrations.CreateModel(
            name="DeadLetter",
            fields=[],
            options={
                "verbose_name": "dead letter",
                "verbose_name_plural": "dead letters",
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("jobqueue.job",),
        ),
        migrations.CreateModel(
            name="StuckJob",
            fields=[],
            options={
                "verbose_name": "stuck job",
                "verbose_name_plural": "stuck jobs",
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("jobqueue.job",),
        ),
    ]
