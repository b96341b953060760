-- Resume the queues whose pause is over. Claims know by themselves; this wakes who sleeps, and keeps the table tidy.
-- Params:  none
-- Returns: (name) of each
-- Locks:   those rows, stepping over locked ones
-- Index:   none (one row a queue that was ever paused)
WITH over AS MATERIALIZED (
    SELECT name FROM jobqueue_queue
     WHERE resumes_at <= statement_timestamp()
       FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobqueue_queue AS queue
   SET paused_at = NULL, paused_by = '', reason = '', resumes_at = NULL
  FROM over
 WHERE queue.name = over.name
RETURNING queue.name
