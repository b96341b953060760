-- Count jobs by status, and those that are stuck, each up to a cap.
-- Params:  cap bigint, patience float8 (seconds that a run may take), patient text (JSON object: of types that may take longer)
-- Returns: (status, jobs) of each status; status 0 stands for what is stuck
-- Locks:   none
-- Index:   jobqueue_job_claim, jobqueue_job_running, jobqueue_job_scheduled, jobqueue_job_finished
-- As count_jobs.sql and JobQuerySet.stuck() have it: together, since the overview asks for both every few seconds.
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
UNION ALL
SELECT 0, count(*)
  FROM (SELECT FROM jobqueue_job
         WHERE status = 2 /* RUNNING */
           AND (lease_until < statement_timestamp()
                OR COALESCE(greatest(run_started_at, claimed_at), created_at) < statement_timestamp()
                   - make_interval(secs => COALESCE((%(patient)s::jsonb ->> job_type)::float8, %(patience)s::float8)))
         LIMIT %(cap)s) AS capped
