-- Tell how many jobs of each queue are due, and how long its oldest has waited, by loose scans and counts up to a cap.
-- Params:  queues int (the first so many by name), entries int (to read for all depths), cap int (of one depth)
-- Returns: (queue, jobs, oldest_seconds float8, cap) of each queue with due jobs; jobs = cap + 1 means more than cap
-- Locks:   none
-- Index:   jobqueue_job_claim
-- Many long queues share the entries that are read, so that the cost has an end; no cap is below 100.
WITH RECURSIVE head AS (
    (SELECT queue, priority, run_after, 1 AS number FROM jobqueue_job WHERE status = 1 /* PENDING */
      ORDER BY queue, priority, run_after, id LIMIT 1)
    UNION ALL
    SELECT later.queue, later.priority, later.run_after, head.number + (later.queue <> head.queue)::int
      FROM head CROSS JOIN LATERAL (
           SELECT queue, priority, run_after FROM jobqueue_job
            WHERE status = 1 /* PENDING */ AND (queue, priority) > (head.queue, head.priority)
            ORDER BY queue, priority, run_after, id LIMIT 1) AS later
     WHERE head.number <= %(queues)s::int),
found AS MATERIALIZED (
    SELECT queue, min(least(greatest(run_after, 'epoch'), '9999-12-30Z')) AS oldest,
           least(%(cap)s::int, greatest(100, %(entries)s::int / count(*) OVER ())) AS cap
      FROM head WHERE number <= %(queues)s::int GROUP BY queue)
SELECT found.queue, depth.jobs, extract(epoch FROM statement_timestamp() - found.oldest)::float8 AS oldest_seconds, found.cap
  FROM found CROSS JOIN LATERAL (
       SELECT count(*) AS jobs FROM (
              SELECT FROM jobqueue_job WHERE status = 1 /* PENDING */ AND queue = found.queue
               ORDER BY priority, run_after, id LIMIT found.cap + 1) AS due) AS depth
 ORDER BY found.queue
