"""A procedure that enqueues one due job, commits, and wakes an idle worker: all in one round trip."""

from django.db import migrations

# Idle workers have to be looked for after the commit (jobqueue/managers/waking.py); as a statement of its own that look
# took a third of an enqueue. Errors of the look are swallowed: the job is committed by then, and workers poll.
CREATE = """
CREATE PROCEDURE jobqueue_enqueue_due(
    new_job_type text, new_queue text, new_priority int, new_payload text, new_payload_bytes int, new_dedupe_key text,
    new_owner text, new_max_attempts int, channel text, INOUT new_id bigint, INOUT new_created_at timestamptz)
LANGUAGE plpgsql AS $procedure$
BEGIN
    INSERT INTO jobqueue_job AS job (job_type, queue, priority, payload, payload_bytes, dedupe_key, owner, max_attempts)
    VALUES (new_job_type, new_queue, new_priority, new_payload::jsonb, new_payload_bytes, new_dedupe_key, new_owner,
            new_max_attempts)
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
DROP PROCEDURE jobqueue_enqueue_due(text, text, int, text, int, text, text, int, text, bigint, timestamptz);
"""


class Migration(migrations.Migration):
    """Code that does not know the procedure works on; code that misses it falls back to two statements."""

    dependencies = [("jobqueue", "0003_console_pages")]

    operations = [migrations.RunSQL(CREATE, DROP)]
