-- Write down what a worker answers to orders: once, and its own only.
-- Params:  worker_id text, answers text: a JSON array of objects (id, obeyed, answer)
-- Returns: (id) of each that is answered now; what is missing is locked by somebody, or gone
-- Locks:   those rows, stepping over locked ones: the worker's leases must not wait for a person
-- Index:   primary key, or jobqueue_order_open
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(answers)s::jsonb) AS given (id bigint, obeyed boolean, answer text)),
mine AS MATERIALIZED (
    SELECT id FROM jobqueue_order
     WHERE id IN (SELECT given.id FROM given) AND worker_id = %(worker_id)s AND answered_at IS NULL
       FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobqueue_order AS asked
   SET answered_at = statement_timestamp(), obeyed = given.obeyed, answer = given.answer
  FROM given JOIN mine ON mine.id = given.id
 WHERE asked.id = given.id
RETURNING asked.id
