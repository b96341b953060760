-- Tell how long ago each worker was heard of, and when its claim loop was last well, the youngest boots first.
-- Params:  worker_id text (NULL: any), name text (NULL: any), take int
-- Returns: (worker_id, heartbeat_seconds float8, claim_seconds float8 (of one that has not claimed yet: since its start), stopping)
-- Locks:   none
-- Index:   none (one row a worker)
SELECT worker_id, extract(epoch FROM statement_timestamp() - heartbeat_at)::float8 AS heartbeat_seconds,
       extract(epoch FROM statement_timestamp() - COALESCE(claimed_at, started_at))::float8 AS claim_seconds, stopping
  FROM jobqueue_worker
 WHERE (%(worker_id)s::text IS NULL OR worker_id = %(worker_id)s::text) AND (%(name)s::text IS NULL OR name = %(name)s::text)
 ORDER BY started_at DESC, worker_id
 LIMIT %(take)s
