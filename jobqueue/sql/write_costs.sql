-- Write down what running attempts have cost so far, where this worker's attempt still owns the job: a reaper charges it.
-- Params:  worker_id text, ids bigint[], epochs bigint[], costs text[] (JSON array of [component, unit, amount as text])
-- Returns: (id) of each written
-- Locks:   those rows, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key; the update is HOT (it writes no indexed column)
WITH held AS MATERIALIZED (
    SELECT job.id, given.costs
      FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(costs)s::text[]) AS given (id, lease_epoch, costs)
      JOIN jobqueue_job AS job ON job.id = given.id
     WHERE job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
     ORDER BY job.id
       FOR NO KEY UPDATE OF job SKIP LOCKED)
UPDATE jobqueue_job AS job
   SET open_costs = held.costs::jsonb, updated_at = statement_timestamp()
  FROM held
 WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
RETURNING job.id
