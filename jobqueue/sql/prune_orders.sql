-- Delete orders to workers that are old, answered or not.
-- Params:  age interval, take int
-- Returns: (id) of each
-- Locks:   those rows, stepping over locked ones
-- Index:   primary key
-- Of the oldest rows only: where none of those is old enough, nothing else is looked at, and nothing is locked.
WITH oldest AS (
    SELECT id, asked_at FROM jobqueue_order ORDER BY id LIMIT %(take)s),
old AS MATERIALIZED (
    SELECT id FROM jobqueue_order
     WHERE id IN (SELECT oldest.id FROM oldest WHERE oldest.asked_at < statement_timestamp() - %(age)s::interval)
       FOR UPDATE SKIP LOCKED)
DELETE FROM jobqueue_order WHERE id IN (SELECT id FROM old)
RETURNING id
