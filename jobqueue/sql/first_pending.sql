-- Name the due job of one queue that the next claim would take first.
-- Params:  queue text, skip bigint[] (ids to step over)
-- Returns: one row (id), or none
-- Locks:   that row, stepping over locked ones as the claim does
-- Index:   jobqueue_job_claim
SELECT id FROM jobqueue_job
 WHERE status = 1 /* PENDING */ AND queue = %(queue)s AND NOT (id = ANY (%(skip)s::bigint[]))
 ORDER BY priority, run_after, id
 LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED
