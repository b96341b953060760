-- Tell how long until the next scheduled job is due.
-- Params:  none
-- Returns: one row (seconds float8; NULL when nothing is scheduled)
-- Locks:   none
-- Index:   jobqueue_job_scheduled
SELECT CASE WHEN next.run_after IS NOT NULL
            THEN extract(epoch FROM least(greatest(next.run_after, 'epoch'), '9999-12-30Z') - statement_timestamp())::float8
        END AS seconds
  FROM (SELECT min(run_after) AS run_after FROM jobqueue_job WHERE status = 5 /* SCHEDULED */) AS next
