-- Count jobs by status, each up to a cap.
-- Params:  cap bigint (NULL: no cap)
-- Returns: (status, jobs) of each status
-- Locks:   none
-- Index:   jobqueue_job_claim, jobqueue_job_running, jobqueue_job_scheduled, jobqueue_job_finished
SELECT 1 AS status, count(*) AS jobs FROM (SELECT FROM jobqueue_job WHERE status = 1 /* PENDING */ LIMIT %(cap)s) AS capped
UNION ALL SELECT 2, count(*) FROM (SELECT FROM jobqueue_job WHERE status = 2 /* RUNNING */ LIMIT %(cap)s) AS capped
UNION ALL SELECT 3, count(*) FROM (SELECT FROM jobqueue_job WHERE status = 3 /* DONE */ LIMIT %(cap)s) AS capped
UNION ALL SELECT 4, count(*) FROM (SELECT FROM jobqueue_job WHERE status = 4 /* DEAD */ LIMIT %(cap)s) AS capped
UNION ALL SELECT 5, count(*) FROM (SELECT FROM jobqueue_job WHERE status = 5 /* SCHEDULED */ LIMIT %(cap)s) AS capped
UNION ALL SELECT 7, count(*) FROM (SELECT FROM jobqueue_job WHERE status = 7 /* CANCELLED */ LIMIT %(cap)s) AS capped
