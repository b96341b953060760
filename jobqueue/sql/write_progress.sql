-- Store the progress that running handlers reported, where this worker's attempt still owns the job.
-- Params:  worker_id text, ids bigint[], epochs bigint[], progress text[] (JSON)
-- Returns: (id) of each written
-- Locks:   those rows, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key; the update is HOT (it writes no indexed column)
WITH held AS MATERIALIZED (
    SELECT job.id, given.progress
      FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(progress)s::text[]) AS given (id, lease_epoch, progress)
      JOIN jobqueue_job AS job ON job.id = given.id
     WHERE job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
     ORDER BY job.id
       FOR NO KEY UPDATE OF job SKIP LOCKED)
UPDATE jobqueue_job AS job
   SET progress = held.progress::jsonb, updated_at = statement_timestamp()
  FROM held
 WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
RETURNING job.id
