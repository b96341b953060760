-- Name the running job that the next reap would take first.
-- Params:  skip bigint[] (ids to step over)
-- Returns: one row (id), or none
-- Locks:   that row, stepping over locked ones as the reap does
-- Index:   jobqueue_job_running
SELECT id FROM jobqueue_job
 WHERE status = 2 /* RUNNING */ AND COALESCE(lease_until, '-infinity') < statement_timestamp() AND NOT (id = ANY (%(skip)s::bigint[]))
 ORDER BY id
 LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED
