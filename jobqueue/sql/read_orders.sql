-- Read what people ask of a worker and what it has not answered yet, oldest first.
-- Params:  worker_id text, take int
-- Returns: (id, kind, job_id, lease_epoch, asked_by) of each
-- Locks:   none
-- Index:   jobqueue_order_open
SELECT id, kind, job_id, lease_epoch, asked_by FROM jobqueue_order
 WHERE worker_id = %(worker_id)s AND answered_at IS NULL
 ORDER BY id
 LIMIT %(take)s
