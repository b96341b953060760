-- Tell how long until the next scheduled job is due.
-- Params:  none
-- Returns: one row (seconds float8; NULL when nothing is scheduled)
-- Locks:   none
-- Index:   jobqueue_job_scheduled
SELECT extract(epoch FROM min(run_after) - statement_timestamp())::float8 AS seconds
  FROM jobqueue_job
 WHERE status = 5 /* SCHEDULED */
