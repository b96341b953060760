-- Make scheduled jobs whose time has come PENDING, earliest first.
-- Params:  take int, skip bigint[] (ids to step over)
-- Returns: (id, queue) of each
-- Locks:   those rows, stepping over locked ones
-- Index:   jobqueue_job_scheduled, primary key
-- The array keeps the update on the primary key: a generic plan, which knows no limit, would read the whole table.
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
WITH due AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE status = 5 /* SCHEDULED */ AND run_after <= statement_timestamp()
       AND NOT (id = ANY (%(skip)s::bigint[]))
     ORDER BY run_after, id
     LIMIT %(take)s
       FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobqueue_job AS job
   SET status = 1 /* PENDING */, updated_at = statement_timestamp()
 WHERE job.id = ANY (ARRAY(SELECT id FROM due)) AND job.status + 0 = 5 /* SCHEDULED */
RETURNING job.id, job.queue
