"""Statistics by bucket, counters, budgets, paused queues, alerts, hosts of webhooks; costs of attempts under way."""

import django.contrib.postgres.fields
from django.db import migrations, models

import jobqueue.models.expressions


class Migration(migrations.Migration):
    dependencies = [
        ("jobqueue", "0004_enqueue_procedure"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                (
                    "definition",
                    models.JSONField(
                        blank=True,
                        help_text="Of a rule that the settings do not have.",
                        null=True,
                        verbose_name="definition",
                    ),
                ),
                ("threshold", models.FloatField(blank=True, null=True, verbose_name="threshold")),
                ("for_seconds", models.FloatField(blank=True, null=True, verbose_name="fires after so many seconds")),
                (
                    "cooldown_seconds",
                    models.FloatField(blank=True, null=True, verbose_name="is quiet for so many seconds afterwards"),
                ),
                ("muted_until", models.DateTimeField(blank=True, null=True, verbose_name="muted until")),
            ],
            options={
                "verbose_name": "alert rule",
                "verbose_name_plural": "alert rules",
                "permissions": [("manage_alert", "Can change and mute alerts")],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                ("window_start", models.DateTimeField(verbose_name="since")),
                ("window_end", models.DateTimeField(verbose_name="until")),
                ("unit", models.TextField(verbose_name="unit")),
                ("amount", models.DecimalField(decimal_places=8, max_digits=30, verbose_name="budget")),
                ("spent", models.DecimalField(decimal_places=8, max_digits=30, verbose_name="spent")),
                ("level", models.SmallIntegerField(db_default=0, verbose_name="level")),
                ("refuses", models.BooleanField(db_default=False, verbose_name="enqueues refused")),
                ("pauses", models.BooleanField(db_default=False, verbose_name="queue paused")),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="updated"
                    ),
                ),
            ],
            options={
                "verbose_name": "budget",
                "verbose_name_plural": "budgets",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Host",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                (
                    "busy_until",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.DateTimeField(), db_default=[], size=None, verbose_name="requests under way"
                    ),
                ),
                ("failures", models.IntegerField(db_default=0, verbose_name="failures in a row")),
                ("open_until", models.DateTimeField(null=True, verbose_name="left alone until")),
            ],
            options={
                "verbose_name": "host",
                "verbose_name_plural": "hosts",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Tick",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                (
                    "at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="time"
                    ),
                ),
            ],
            options={
                "verbose_name": "tick",
                "verbose_name_plural": "ticks",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                ("paused_at", models.DateTimeField(null=True, verbose_name="paused")),
                (
                    "paused_by",
                    models.TextField(
                        db_default="", help_text="A user, a command, or budget:NAME.", verbose_name="paused by"
                    ),
                ),
                ("reason", models.TextField(db_default="", verbose_name="reason")),
                (
                    "resumes_at",
                    models.DateTimeField(
                        help_text="Empty: when somebody resumes it.", null=True, verbose_name="resumes"
                    ),
                ),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": [("manage_queue", "Can pause and resume queues")],
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="action",
            name="subject",
            field=models.TextField(
                blank=True, db_default="", help_text="queue:NAME where it was no job.", verbose_name="of what"
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="open_costs",
            field=models.JSONField(blank=True, null=True, verbose_name="costs of the attempt under way"),
        ),
        migrations.AddField(
            model_name="job",
            name="trace_context",
            field=models.TextField(blank=True, null=True, verbose_name="trace context"),
        ),
        migrations.AddField(
            model_name="stat",
            name="run_buckets",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.SmallIntegerField(), null=True, size=None, verbose_name="buckets of runs"
            ),
        ),
        migrations.AddField(
            model_name="stat",
            name="run_counts",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(), null=True, size=None, verbose_name="runs by bucket"
            ),
        ),
        migrations.AddField(
            model_name="stat",
            name="wait_buckets",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.SmallIntegerField(), null=True, size=None, verbose_name="buckets of waits"
            ),
        ),
        migrations.AddField(
            model_name="stat",
            name="wait_counts",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(), null=True, size=None, verbose_name="waits by bucket"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="clock_skew_seconds",
            field=models.FloatField(null=True, verbose_name="clock ahead by"),
        ),
        migrations.AddField(
            model_name="worker",
            name="counts_batch",
            field=models.BigIntegerField(db_default=0, verbose_name="batches of counts written"),
        ),
        migrations.AddField(
            model_name="worker",
            name="gauges",
            field=models.JSONField(db_default=[], verbose_name="gauges"),
        ),
        migrations.AddField(
            model_name="worker",
            name="jobs_ended",
            field=models.BigIntegerField(db_default=0, verbose_name="attempts ended"),
        ),
        migrations.AddField(
            model_name="worker",
            name="jobs_per_second",
            field=models.FloatField(
                help_text="Over the last minute.", null=True, verbose_name="attempts ended a second"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="listening",
            field=models.BooleanField(null=True, verbose_name="hears notifications"),
        ),
        migrations.AddField(
            model_name="worker",
            name="memory_bytes",
            field=models.BigIntegerField(help_text="Of its processes together.", null=True, verbose_name="memory"),
        ),
        migrations.CreateModel(
            name="Counter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "at",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="from"
                    ),
                ),
                ("span_seconds", models.SmallIntegerField(db_default=0, verbose_name="span")),
                ("name", models.TextField(verbose_name="name")),
                ("labels", models.JSONField(db_default={}, verbose_name="labels")),
                ("amount", models.FloatField(verbose_name="amount")),
            ],
            options={
                "verbose_name": "counter row",
                "verbose_name_plural": "counter rows",
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("span_seconds__lt", 900)),
                        fields=["span_seconds", "at", "id"],
                        name="jobqueue_counter_fold",
                    ),
                    models.Index(fields=["name", "at"], name="jobqueue_counter_name"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("span_seconds__gt", 0)),
                        fields=("at", "span_seconds", "name", "labels"),
                        name="jobqueue_counter_bucket",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("rule", models.TextField(verbose_name="rule")),
                ("subject", models.TextField(db_default="", verbose_name="subject")),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[(1, "pending"), (2, "firing"), (3, "resolved")], db_default=1, verbose_name="state"
                    ),
                ),
                ("value", models.FloatField(null=True, verbose_name="last value")),
                ("worst", models.FloatField(null=True, verbose_name="worst value")),
                ("threshold", models.FloatField(null=True, verbose_name="threshold")),
                ("text", models.TextField(db_default="", verbose_name="text")),
                (
                    "broken_since",
                    models.DateTimeField(
                        db_default=jobqueue.models.expressions.StatementTimestamp(), verbose_name="broken since"
                    ),
                ),
                ("calm_since", models.DateTimeField(null=True, verbose_name="calm since")),
                ("fired_at", models.DateTimeField(null=True, verbose_name="fired")),
                ("resolved_at", models.DateTimeField(null=True, verbose_name="resolved")),
                ("untold", models.BooleanField(db_default=False, verbose_name="has a message to be sent")),
                ("fired_told_at", models.DateTimeField(null=True, verbose_name="firing told")),
                ("resolved_told_at", models.DateTimeField(null=True, verbose_name="resolved told")),
            ],
            options={
                "verbose_name": "incident",
                "verbose_name_plural": "incidents",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["-broken_since"], name="jobqueue_incident_recent"),
                    models.Index(condition=models.Q(("untold", True)), fields=["id"], name="jobqueue_incident_untold"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", (1, 2))),
                        fields=("rule", "subject"),
                        name="jobqueue_incident_open",
                    )
                ],
            },
        ),
    ]
