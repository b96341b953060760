-- Tell which running jobs somebody asked to cancel.
-- Params:  ids bigint[]
-- Returns: (id) of each
-- Locks:   none
-- Index:   primary key
SELECT id FROM jobqueue_job
 WHERE id = ANY (%(ids)s::bigint[]) AND status + 0 = 2 /* RUNNING */ AND cancel_requested_at IS NOT NULL
