-- Store the progress that running handlers reported, where this worker's attempt still owns the job.
-- Params:  worker_id text, ids bigint[], epochs bigint[], progress text[] (JSON)
-- Returns: (id) of each written
-- Locks:   those rows, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead. LATERAL:
-- joined, a planner that believes no row is this worker's would compare each running row with each given one.
-- Index:   primary key; the update is HOT (it writes no indexed column)
WITH held AS MATERIALIZED (
    SELECT given.id, given.progress
      FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(progress)s::text[]) AS given (id, lease_epoch, progress)
     CROSS JOIN LATERAL (
           SELECT FROM jobqueue_job AS job
            WHERE job.id = given.id
              AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
              FOR NO KEY UPDATE SKIP LOCKED) AS job)
UPDATE jobqueue_job AS job
   SET progress = held.progress::jsonb, updated_at = statement_timestamp()
  FROM held
 WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
RETURNING job.id
