"""The procedure of an enqueue says when in microseconds, which Django reads sooner, and asks for conflicts of keys only."""

from django.db import migrations

CREATE = """
CREATE PROCEDURE jobqueue_enqueue(
    new_job_type text, new_queue text, new_priority int, new_payload text, new_payload_bytes int, new_dedupe_key text,
    new_owner text, new_max_attempts int, new_task_backend text, INOUT new_id bigint, INOUT created_microseconds bigint)
LANGUAGE plpgsql AS $procedure$
BEGIN
    IF new_dedupe_key IS NULL THEN /* no conflict can be, and asking for one costs a look and a record in the log */
        INSERT INTO jobqueue_job AS job (job_type, queue, priority, payload, payload_bytes, owner, max_attempts,
                                         task_backend)
        VALUES (new_job_type, new_queue, new_priority, new_payload::jsonb, new_payload_bytes, new_owner,
                new_max_attempts, new_task_backend)
        RETURNING job.id, extract(epoch FROM job.created_at) * 1000000 INTO new_id, created_microseconds;
    ELSE
        INSERT INTO jobqueue_job AS job (job_type, queue, priority, payload, payload_bytes, dedupe_key, owner,
                                         max_attempts, task_backend)
        VALUES (new_job_type, new_queue, new_priority, new_payload::jsonb, new_payload_bytes, new_dedupe_key, new_owner,
                new_max_attempts, new_task_backend)
        ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING
        RETURNING job.id, extract(epoch FROM job.created_at) * 1000000 INTO new_id, created_microseconds;
    END IF;
    COMMIT;
    IF new_id IS NOT NULL THEN
        BEGIN
            PERFORM pg_notify('jobqueue', new_queue), set_config('synchronous_commit', 'off', true)
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
DROP PROCEDURE jobqueue_enqueue(text, text, int, text, int, text, text, int, text, bigint, bigint);
"""


class Migration(migrations.Migration):
    """Beside jobqueue_enqueue_due, which the release before calls."""

    dependencies = [("jobqueue", "0011_quick_wake")]

    operations = [migrations.RunSQL(CREATE, DROP)]
