-- Count the due jobs of some queues, each up to a cap.
-- Params:  queues text[], cap int
-- Returns: (queue, jobs) of each; cap + 1 means more than cap
-- Locks:   none
-- Index:   jobqueue_job_claim
SELECT wanted.queue, depth.jobs
  FROM unnest(%(queues)s::text[]) AS wanted (queue)
       CROSS JOIN LATERAL (
       SELECT count(*) AS jobs FROM (
              SELECT FROM jobqueue_job WHERE status = 1 /* PENDING */ AND queue = wanted.queue
               ORDER BY priority, run_after, id LIMIT %(cap)s::int + 1) AS due) AS depth
