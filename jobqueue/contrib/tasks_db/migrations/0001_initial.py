"""The table of moved tasks."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Make it."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.CreateModel(
            name="Adopted",
            fields=[
                (
                    "result_id",
                    models.UUIDField(primary_key=True, serialize=False, verbose_name="result of django-tasks-db"),
                ),
                ("job_id", models.BigIntegerField(verbose_name="job")),
            ],
            options={
                "verbose_name": "moved task",
                "verbose_name_plural": "moved tasks",
                "default_permissions": (),
            },
        ),
    ]
