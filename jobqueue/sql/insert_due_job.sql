-- Enqueue one job that is due at once in the caller's transaction, unless an active job holds its key.
-- Params:  job_type text, queue text, priority smallint, payload text (JSON), payload_bytes int, dedupe_key text, owner text,
--          max_attempts smallint, trace_context text, task_backend text
-- Returns: one row (id, created_at, which is its run_after too), or none when the key is held
-- Locks:   none but the unique index's entry
-- Index:   jobqueue_job_dedupe
-- The case of nearly every enqueue, apart from insert_job because it is planned and run in two thirds of the time.
INSERT INTO jobqueue_job (job_type, queue, priority, payload, payload_bytes, dedupe_key, owner, max_attempts, trace_context,
                          task_backend)
VALUES (%(job_type)s, %(queue)s, %(priority)s, %(payload)s, %(payload_bytes)s, %(dedupe_key)s, %(owner)s, %(max_attempts)s,
        %(trace_context)s, %(task_backend)s)
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING
RETURNING id, created_at
