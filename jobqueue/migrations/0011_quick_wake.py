"""The wake-up of an enqueue no longer waits for the disk: it holds the notification lock for a moment only."""

from importlib import import_module

from django.db import migrations

before = import_module("jobqueue.migrations.0009_tasks").CREATE
OR_REPLACE = before.replace("CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE")
CREATE = """
CREATE OR REPLACE PROCEDURE jobqueue_enqueue_due(
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
            PERFORM pg_notify(channel, new_queue), set_config('synchronous_commit', 'off', true)
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


class Migration(migrations.Migration):
    """The same parameters: code of either release works on, before and after."""

    dependencies = [("jobqueue", "0010_console_indexes")]

    operations = [migrations.RunSQL(CREATE, OR_REPLACE)]
