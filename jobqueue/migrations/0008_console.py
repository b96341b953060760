"""What the console keeps of its own: orders to workers, notes on groups, releases, refusals and addresses in the audit.

Two permissions have a new name. Who has been granted the old one keeps it.
"""

from typing import Any

from django.db import migrations, models

import jobqueue.models.action
import jobqueue.models.expressions

RENAMED = (("job", "view_costs", "view_cost"), ("action", "view_action", "view_audit"))


def rename_permissions(apps: Any, schema_editor: Any) -> None:
    rename(schema_editor, [(model, old, new) for model, old, new in RENAMED])


def rename_back(apps: Any, schema_editor: Any) -> None:
    rename(schema_editor, [(model, new, old) for model, old, new in RENAMED])


def rename(schema_editor: Any, names: list[tuple[str, str, str]]) -> None:
    """Rename by SQL: a project without django.contrib.auth, or with it in another database, has nothing to rename."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('auth_permission') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return
        for model, old, new in names:
            cursor.execute(
                """
                UPDATE auth_permission p SET codename = %(new)s FROM django_content_type t
                WHERE t.id = p.content_type_id AND t.app_label = 'jobqueue' AND t.model = %(model)s
                  AND p.codename = %(old)s
                  AND NOT EXISTS (SELECT FROM auth_permission o WHERE o.content_type_id = t.id AND o.codename = %(new)s)
                """,
                {"model": model, "old": old, "new": new},
            )


class Migration(migrations.Migration):
    dependencies = [
        ("jobqueue", "0007_console_permissions"),
    ]

    operations = [
        migrations.CreateModel(
            name="Release",
            fields=[
                ("version", models.TextField(primary_key=True, serialize=False, verbose_name="version")),
                (
                    "first_seen_at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="first seen"
                    ),
                ),
            ],
            options={
                "verbose_name": "release",
                "verbose_name_plural": "releases",
                "default_permissions": (),
            },
        ),
        migrations.AlterModelOptions(
            name="action",
            options={
                "default_permissions": (),
                "permissions": [("view_audit", "Can view the audit")],
                "verbose_name": "action",
                "verbose_name_plural": "audit",
            },
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
                    ("view_cost", "Can view costs"),
                    ("view_payload", "Can see hidden values of payloads"),
                    ("edit_payload", "Can edit payloads"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        migrations.AlterModelOptions(
            name="worker",
            options={
                "default_permissions": ("view",),
                "permissions": [("manage_worker", "Can drain and stop workers")],
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
            },
        ),
        migrations.AddField(
            model_name="worker",
            name="release",
            field=models.TextField(db_default="", help_text="Of the project.", verbose_name="release"),
        ),
        migrations.AlterField(
            model_name="worker",
            name="version",
            field=models.TextField(db_default="", help_text="Of jobqueue.", verbose_name="version"),
        ),
        migrations.AddField(
            model_name="action",
            name="address",
            field=models.TextField(
                blank=True,
                db_default="",
                default=jobqueue.models.action.current_address,
                help_text="Where a request came from.",
                verbose_name="address",
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="refused",
            field=models.BooleanField(
                db_default=False, help_text="Asked for without the permission.", verbose_name="refused"
            ),
        ),
        migrations.CreateModel(
            name="GroupNote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "fingerprint",
                    models.TextField(
                        help_text="Empty: of jobs that died without an error.", verbose_name="fingerprint"
                    ),
                ),
                ("job_type", models.TextField(verbose_name="type")),
                ("note", models.TextField(blank=True, db_default="", verbose_name="note")),
                (
                    "assignee",
                    models.TextField(
                        blank=True, db_default="", help_text="A user's name.", verbose_name="in the hands of"
                    ),
                ),
                ("muted_until", models.DateTimeField(blank=True, null=True, verbose_name="muted until")),
                (
                    "muted_rate",
                    models.IntegerField(
                        blank=True,
                        help_text="Twice as many end the mute. Empty: only the time does.",
                        null=True,
                        verbose_name="dead letters a day when it was muted",
                    ),
                ),
                ("updated_by", models.TextField(db_default="", verbose_name="changed by")),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="changed"
                    ),
                ),
            ],
            options={
                "verbose_name": "note on a group of dead letters",
                "verbose_name_plural": "notes on groups of dead letters",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("fingerprint", "job_type"), name="jobqueue_groupnote_group")
                ],
            },
        ),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("worker_id", models.TextField(verbose_name="worker")),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("stack", "show where a job's handler is"),
                            ("kill", "kill the child that runs a job"),
                            ("drain", "finish what runs, claim nothing more, and end"),
                            ("stop", "release what runs, and end at once"),
                        ],
                        verbose_name="order",
                    ),
                ),
                ("job_id", models.BigIntegerField(null=True, verbose_name="job")),
                ("lease_epoch", models.BigIntegerField(null=True, verbose_name="lease epoch")),
                ("asked_by", models.TextField(verbose_name="asked by")),
                (
                    "asked_at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="asked"
                    ),
                ),
                ("answered_at", models.DateTimeField(null=True, verbose_name="answered")),
                ("obeyed", models.BooleanField(null=True, verbose_name="obeyed")),
                ("answer", models.TextField(null=True, verbose_name="answer")),
            ],
            options={
                "verbose_name": "order to a worker",
                "verbose_name_plural": "orders to workers",
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("answered_at", None)),
                        fields=["worker_id", "id"],
                        name="jobqueue_order_open",
                    ),
                    models.Index(fields=["job_id", "id"], name="jobqueue_order_job"),
                ],
            },
        ),
        migrations.AddField(
            model_name="tick", name="seen", field=models.JSONField(null=True, verbose_name="what was seen")
        ),
        migrations.RunPython(rename_permissions, rename_back, elidable=True),
    ]
