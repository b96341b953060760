-- Cancel jobs: waiting ones at once, running ones by a request that their worker carries out.
-- Params:  ids bigint[], reason text
-- Returns: (id, status after, worker_id of a running one) of each that was cancelled or asked
-- Locks:   those rows, in id order
-- Index:   primary key
-- The update asks what the row is, not what the list said: a claim may have committed while this waited for the row, and a
-- comparison with the list would then leave the running job out.
WITH chosen AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE id = ANY (%(ids)s::bigint[]) AND status IN (1 /* PENDING */, 2 /* RUNNING */, 5 /* SCHEDULED */)
     ORDER BY id
       FOR NO KEY UPDATE)
UPDATE jobqueue_job AS job
   SET status = CASE WHEN job.status = 2 /* RUNNING */ THEN 2 ELSE 7 /* CANCELLED */ END,
       outcome = CASE WHEN job.status = 2 /* RUNNING */ THEN job.outcome ELSE 8 /* cancelled */ END,
       finished_at = CASE WHEN job.status = 2 /* RUNNING */ THEN job.finished_at ELSE statement_timestamp() END,
       cancel_requested_at = COALESCE(job.cancel_requested_at, statement_timestamp()),
       last_error = CASE WHEN %(reason)s = '' THEN job.last_error ELSE %(reason)s END,
       updated_at = statement_timestamp()
  FROM chosen
 WHERE job.id = chosen.id AND job.status IN (1 /* PENDING */, 2 /* RUNNING */, 5 /* SCHEDULED */)
RETURNING job.id, job.status, job.worker_id
