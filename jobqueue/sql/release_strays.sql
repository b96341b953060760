-- Give back, uncharged, rows leased under this worker's id that it does not hold: the answer to a claim was lost.
-- Params:  worker_id text, held bigint[] (ids the worker knows of)
-- Returns: (id) of each released job
-- Locks:   those rows, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- By an array of ids: a plan for any parameters that was made while the table was small would read all of it later.
-- Index:   jobqueue_job_running
WITH stray AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE status = 2 /* RUNNING */ AND worker_id = %(worker_id)s AND NOT (id = ANY (%(held)s::bigint[]))
     ORDER BY id
       FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobqueue_job AS job
   SET status = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 7 /* CANCELLED */ ELSE 1 /* PENDING */ END,
       outcome = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 8 /* cancelled */ ELSE job.outcome END,
       finished_at = CASE WHEN job.cancel_requested_at IS NOT NULL THEN statement_timestamp() END,
       progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END,
       attempts = job.attempts - 1, worker_id = NULL, lease_until = NULL, updated_at = statement_timestamp()
 WHERE job.id = ANY (ARRAY(SELECT id FROM stray)) AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s
RETURNING job.id
