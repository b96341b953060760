-- Discard dead letters: nobody wants them run; the reason is kept.
-- Params:  ids bigint[], reason text
-- Returns: (id) of each
-- Locks:   those rows, in id order, under the caller's lock_timeout
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key
WITH chosen AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE id = ANY (%(ids)s::bigint[]) AND status + 0 = 4 /* DEAD */
     ORDER BY id
       FOR NO KEY UPDATE)
UPDATE jobqueue_job AS job
   SET status = 7 /* CANCELLED */, outcome = 9 /* discarded */, finished_at = statement_timestamp(),
       last_error = CASE WHEN %(reason)s = '' THEN job.last_error
                         ELSE concat(job.last_error, ' [discarded: ', %(reason)s::text, ']') END,
       updated_at = statement_timestamp()
  FROM chosen
 WHERE job.id = chosen.id AND job.status + 0 = 4 /* DEAD */
RETURNING job.id
