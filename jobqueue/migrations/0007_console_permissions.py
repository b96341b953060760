"""What the console asks for before it shows or changes a payload, and what the audit keeps of an edit."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobqueue", "0006_costliest_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="detail",
            field=models.JSONField(blank=True, null=True, verbose_name="detail"),
        ),
        migrations.AlterModelOptions(
            name="job",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("retry_job", "Can retry jobs"),
                    ("discard_job", "Can discard dead letters"),
                    ("cancel_job", "Can cancel jobs"),
                    ("release_job", "Can release stuck jobs"),
                    ("view_costs", "Can view costs"),
                    ("view_payload", "Can see hidden values of payloads"),
                    ("edit_payload", "Can edit payloads"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
    ]
