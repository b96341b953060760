-- How large payloads are, before they are read.
-- Params:  ids bigint[]
-- Returns: (id, payload_bytes) of each
-- Locks:   none
-- Index:   primary key
SELECT id, payload_bytes FROM jobqueue_job WHERE id = ANY (%(ids)s::bigint[])
