-- Name the scheduled job that the next promotion would take first.
-- Params:  skip bigint[] (ids to step over)
-- Returns: one row (id), or none
-- Locks:   that row, stepping over locked ones as the promotion does
-- Index:   jobqueue_job_scheduled
SELECT id FROM jobqueue_job
 WHERE status = 5 /* SCHEDULED */ AND run_after <= statement_timestamp() AND NOT (id = ANY (%(skip)s::bigint[]))
 ORDER BY run_after, id
 LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED
