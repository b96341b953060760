-- Remove the row of a worker that ends.
-- Params:  worker_id text
-- Returns: nothing
-- Locks:   that row
-- Index:   primary key
DELETE FROM jobqueue_worker WHERE worker_id = %(worker_id)s
