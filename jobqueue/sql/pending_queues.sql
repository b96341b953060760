-- List the queues that have due jobs, by a loose scan that reads one index entry a queue.
-- Params:  none
-- Returns: (queue) of each, in order
-- Locks:   none
-- Index:   jobqueue_job_claim
-- Source:  "Loose indexscan", PostgreSQL wiki (emulated by a recursive query)
WITH RECURSIVE found AS (
    (SELECT queue FROM jobqueue_job WHERE status = 1 /* PENDING */ ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM jobqueue_job WHERE status = 1 /* PENDING */ AND queue > found.queue ORDER BY queue LIMIT 1)
      FROM found WHERE found.queue IS NOT NULL)
SELECT queue FROM found WHERE queue IS NOT NULL
