-- Remove the rows of budgets that no worker's settings have any more.
-- Params:  names text[] (of those that this worker's settings have)
-- Returns: (name) of each
-- Locks:   those rows
-- Index:   none (one row a budget)
-- A row that another worker still writes stays: while versions or settings are mixed, nobody takes back what others do.
DELETE FROM jobqueue_budget
 WHERE NOT (name = ANY (%(names)s::text[])) AND updated_at < statement_timestamp() - interval '1 minute'
RETURNING name
