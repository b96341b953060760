-- Enqueue many jobs with keys, in the order of their keys (two callers with the same keys then never deadlock). The order is
-- that of the bytes, in which the caller also cuts its chunks: in the database's collation chunks could overlap.
-- Params:  ids bigint[], job_types text[], queues text[], priorities smallint[], payloads text[], payload_bytes int[],
--          run_afters timestamptz[], statuses smallint[], dedupe_keys text[], owners text[], max_attempts smallint[],
--          task_backends text[], trace_context text (of all)
-- Returns: (id) of each inserted one
-- Locks:   none but the unique index's entries
-- Index:   jobqueue_job_dedupe
INSERT INTO jobqueue_job (id, job_type, queue, priority, payload, payload_bytes, run_after, status, dedupe_key, owner, max_attempts,
                          trace_context, task_backend)
SELECT id, job_type, queue, priority, payload::jsonb, payload_bytes, run_after, status, dedupe_key, owner, max_attempts,
       %(trace_context)s::text, task_backend
  FROM unnest(%(ids)s::bigint[], %(job_types)s::text[], %(queues)s::text[], %(priorities)s::smallint[], %(payloads)s::text[],
              %(payload_bytes)s::int[], %(run_afters)s::timestamptz[], %(statuses)s::smallint[], %(dedupe_keys)s::text[],
              %(owners)s::text[], %(max_attempts)s::smallint[], %(task_backends)s::text[])
       AS given (id, job_type, queue, priority, payload, payload_bytes, run_after, status, dedupe_key, owner, max_attempts,
                 task_backend)
 ORDER BY dedupe_key COLLATE "C", id
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN (1, 2, 5, 6) DO NOTHING
RETURNING id
