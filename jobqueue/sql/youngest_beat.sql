-- Tell how long ago any other worker was last heard of.
-- Params:  worker_id text
-- Returns: one row (seconds float8; NULL when there is no other)
-- Locks:   none
-- Index:   none (one row a worker)
SELECT extract(epoch FROM statement_timestamp() - max(heartbeat_at))::float8 AS seconds
  FROM jobqueue_worker
 WHERE worker_id <> %(worker_id)s
