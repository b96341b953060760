-- Tell how long the oldest due job has waited, by a loose scan that reads one index entry a queue and priority.
-- Params:  none
-- Returns: one row (seconds float8; NULL when nothing is due)
-- Locks:   none
-- Index:   jobqueue_job_claim
WITH RECURSIVE head AS (
    (SELECT queue, priority, run_after FROM jobqueue_job WHERE status = 1 /* PENDING */
      ORDER BY queue, priority, run_after, id LIMIT 1)
    UNION ALL
    SELECT later.queue, later.priority, later.run_after
      FROM head CROSS JOIN LATERAL (
           SELECT queue, priority, run_after FROM jobqueue_job
            WHERE status = 1 /* PENDING */ AND (queue, priority) > (head.queue, head.priority)
            ORDER BY queue, priority, run_after, id LIMIT 1) AS later)
SELECT extract(epoch FROM statement_timestamp() - min(least(greatest(run_after, 'epoch'), '9999-12-30Z')))::float8 AS seconds FROM head
