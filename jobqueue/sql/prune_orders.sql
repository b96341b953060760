-- Delete orders to workers that are old, answered or not.
-- Params:  age interval, take int
-- Returns: (id) of each
-- Locks:   the oldest rows, stepping over locked ones
-- Index:   primary key
WITH oldest AS MATERIALIZED (
    SELECT id, asked_at FROM jobqueue_order ORDER BY id LIMIT %(take)s FOR UPDATE SKIP LOCKED)
DELETE FROM jobqueue_order
 WHERE id IN (SELECT id FROM oldest WHERE asked_at < statement_timestamp() - %(age)s::interval)
RETURNING id
