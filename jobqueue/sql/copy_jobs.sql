-- Enqueue many jobs without keys.
-- Params:  none (rows follow in COPY's text format)
-- Returns: nothing
-- Locks:   none
-- Index:   none
COPY jobqueue_job (id, job_type, queue, priority, payload, payload_bytes, run_after, status, owner, max_attempts, task_backend,
               trace_context)
FROM STDIN
