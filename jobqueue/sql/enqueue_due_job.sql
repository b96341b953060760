-- Enqueue one job that is due at once, commit, and wake an idle worker of its queue; not within a transaction.
-- Params:  job_type text, queue text, priority int, payload text (JSON), payload_bytes int, dedupe_key text, owner text,
--          max_attempts int, task_backend text (of a django.tasks task, else NULL)
-- Returns: one row (id, created_at in microseconds since 1970, which is its run_after too); both NULL when the key is held
-- Locks:   none but the unique index's entry; after the commit, with somebody idle, the notification lock
-- Index:   jobqueue_job_dedupe
-- The same as insert_due_job and wake_queue, in one round trip (procedure: migration 0012).
CALL jobqueue_enqueue(%(job_type)s, %(queue)s, %(priority)s::int, %(payload)s, %(payload_bytes)s::int, %(dedupe_key)s,
                      %(owner)s, %(max_attempts)s::int, %(task_backend)s, NULL, NULL)
