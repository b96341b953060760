-- Give a dead letter another payload, if it is still as somebody saw it.
-- Params:  id bigint, payload text (JSON), payload_bytes int, updated_at timestamptz, lease_epoch bigint
-- Returns: one row (the payload before, as text), or none where the job has changed meanwhile
-- Locks:   that row, under the caller's lock_timeout
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key
-- A row that changed while this waited for it is looked at again, and its updated_at is another one then: so what is read of
-- it beside the lock is what it held.
UPDATE jobqueue_job AS job
   SET payload = %(payload)s::jsonb, payload_bytes = %(payload_bytes)s, updated_at = statement_timestamp()
  FROM jobqueue_job AS before
 WHERE job.id = %(id)s AND before.id = %(id)s AND job.status + 0 = 4 /* DEAD */
   AND job.lease_epoch = %(lease_epoch)s AND job.updated_at = %(updated_at)s
RETURNING before.payload::text
