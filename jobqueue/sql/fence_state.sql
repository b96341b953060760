-- Tell how jobs stand, for a settle that was refused: its own repeated settle, or somebody else's.
-- Params:  ids bigint[]
-- Returns: (id, status, worker_id, lease_epoch) of those that exist
-- Locks:   none
-- Index:   primary key
SELECT id, status, worker_id, lease_epoch FROM jobqueue_job WHERE id = ANY (%(ids)s::bigint[])
