-- Count jobs by status, each up to a cap.
-- Params:  cap bigint (NULL: no cap)
-- Returns: (status, jobs) of each status
-- Locks:   none
-- Index:   jobqueue_job_claim, jobqueue_job_running, jobqueue_job_scheduled, jobqueue_job_finished
-- The orders are those of the indexes: without them a plan may trust a status to be common and read the table until the cap
-- is reached, which it is not where the rows of a status lie together at the other end.
SELECT 1 AS status, count(*) AS jobs
  FROM (SELECT FROM jobqueue_job WHERE status = 1 /* PENDING */ ORDER BY queue, priority, run_after, id LIMIT %(cap)s) AS capped
UNION ALL
SELECT 2, count(*)
  FROM (SELECT FROM jobqueue_job WHERE status = 2 /* RUNNING */ LIMIT %(cap)s) AS capped
UNION ALL
SELECT 3, count(*)
  FROM (SELECT FROM jobqueue_job WHERE status = 3 /* DONE */ ORDER BY status, finished_at, id LIMIT %(cap)s) AS capped
UNION ALL
SELECT 4, count(*)
  FROM (SELECT FROM jobqueue_job WHERE status = 4 /* DEAD */ ORDER BY status, finished_at, id LIMIT %(cap)s) AS capped
UNION ALL
SELECT 5, count(*)
  FROM (SELECT FROM jobqueue_job WHERE status = 5 /* SCHEDULED */ ORDER BY run_after, id LIMIT %(cap)s) AS capped
UNION ALL
SELECT 7, count(*)
  FROM (SELECT FROM jobqueue_job WHERE status = 7 /* CANCELLED */ ORDER BY status, finished_at, id LIMIT %(cap)s) AS capped
