-- Read when jobs were enqueued.
-- Params:  ids bigint[]
-- Returns: (id, created_at) of each that is there
-- Locks:   none
-- Index:   primary key
SELECT id, created_at FROM jobqueue_job WHERE id = ANY (%(ids)s::bigint[])
