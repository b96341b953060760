-- Remove the rows of workers that have not been heard of for a while.
-- Params:  age interval
-- Returns: (worker_id) of each
-- Locks:   those rows, stepping over locked ones
-- Index:   none (one row a worker)
DELETE FROM jobqueue_worker
 WHERE worker_id IN (SELECT worker_id FROM jobqueue_worker
                      WHERE heartbeat_at < statement_timestamp() - %(age)s::interval FOR UPDATE SKIP LOCKED)
RETURNING worker_id
