"""Which alias of TASKS a job was enqueued by, for django.tasks; and the procedure that stores it."""

from django.db import migrations, models

# That of 0004 with one parameter more. The old one stays for code of the release before, which runs on until the deploy
# has reached every process; the number of parameters tells them apart.
CREATE = """
CREATE PROCEDURE jobqueue_enqueue_due(
    new_job_type text, new_queue text, new_priority int, new_payload text, new_payload_bytes int, new_dedupe_key text,
    new_owner text, new_max_attempts int, channel text, new_task_backend text, INOUT new_id bigint,
    INOUT new_created_at timestamptz)
LANGUAGE plpgsql AS $procedure$
BEGIN
    INSERT INTO jobqueue_job AS job (job_type, queue, priority, payload, payload_bytes, dedupe_key, owner, max_attempts,
                                     task_backend)
    VALUES (new_job_type, new_queue, new_priority, new_payload::jsonb, new_payload_bytes, new_dedupe_key, new_owner,
            new_max_attempts, new_task_backend)
    ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING
    RETURNING job.id, job.created_at INTO new_id, new_created_at;
    COMMIT;
    IF new_id IS NOT NULL THEN
        BEGIN
            PERFORM pg_notify(channel, new_queue)
               FROM jobqueue_worker
              WHERE idle_since IS NOT NULL AND queues && ARRAY[new_queue, '*']
                AND heartbeat_at > statement_timestamp() - interval '1 minute' /* else killed in its sleep */
              LIMIT 1;
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            RAISE LOG 'jobqueue: wake-up not sent: %', SQLERRM;
        END;
    END IF;
END
$procedure$;
"""
DROP = """
DROP PROCEDURE jobqueue_enqueue_due(text, text, int, text, int, text, text, int, text, text, bigint, timestamptz);
"""


class Migration(migrations.Migration):
    """A nullable column and a procedure: code that knows neither works on."""

    dependencies = [("jobqueue", "0008_console")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="task_backend",
            field=models.TextField(blank=True, null=True, verbose_name="tasks backend"),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
