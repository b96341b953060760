-- Count the jobs that are stuck up to a cap.
-- Params:  cap bigint, patience float8 (seconds that a run may take), patient text (JSON object: of types that may take longer)
-- Returns: (status 0, jobs): a row to stand beside those of count_jobs.sql
-- Locks:   none
-- Index:   jobqueue_job_running
-- What stuck means is as JobQuerySet.stuck() has it.
SELECT 0 AS status, count(*) AS jobs
  FROM (SELECT FROM jobqueue_job
         WHERE status = 2 /* RUNNING */
           AND (lease_until < statement_timestamp()
                OR COALESCE(greatest(run_started_at, claimed_at), created_at) < statement_timestamp()
                   - make_interval(secs => COALESCE((%(patient)s::jsonb ->> job_type)::float8, %(patience)s::float8)))
         LIMIT %(cap)s) AS capped
