-- Enqueue one job in the caller's transaction, unless an active job holds its key.
-- Params:  job_type text, queue text, priority smallint, payload text (JSON), payload_bytes int, run_after timestamptz (NULL: now),
--          delay interval (added to now when run_after is NULL), dedupe_key text, owner text, max_attempts smallint,
--          trace_context text, task_backend text
-- Returns: one row (id, status, run_after, created_at), or none when the key is held
-- Locks:   none but the unique index's entry
-- Index:   jobqueue_job_dedupe
INSERT INTO jobqueue_job (job_type, queue, priority, payload, payload_bytes, run_after, status, dedupe_key, owner, max_attempts,
                          trace_context, task_backend)
SELECT %(job_type)s, %(queue)s, %(priority)s::smallint, %(payload)s::jsonb, %(payload_bytes)s::int, due.at,
       CASE WHEN due.at > statement_timestamp() THEN 5 /* SCHEDULED */ ELSE 1 /* PENDING */ END,
       %(dedupe_key)s, %(owner)s, %(max_attempts)s::smallint, %(trace_context)s, %(task_backend)s
  FROM (SELECT COALESCE(%(run_after)s::timestamptz, statement_timestamp() + %(delay)s::interval) AS at) AS due
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING
RETURNING id, status, run_after, created_at
