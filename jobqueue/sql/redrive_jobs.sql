-- Give dead letters a fresh budget of attempts and put them back, spread over a while.
-- Params:  ids bigint[], spread_seconds float8 (0: all due at once), not_before timestamptz (NULL: now)
-- Returns: (id, status, queue) of each
-- Locks:   those rows, in id order, under the caller's lock_timeout
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key, jobqueue_job_dead_key, jobqueue_job_dedupe
-- Rows are locked in id order, as everywhere; keys are taken in their own order, as a bulk enqueue takes them (in a table so
-- small that the plan is a hash join they may not be: the deadlock is then the manager's to retry).
-- Left out (see blocked_redrives): a row whose key an active job holds, and all but the newest dead row of a key.
WITH chosen AS MATERIALIZED (
    SELECT job.id, job.dedupe_key, random() * %(spread_seconds)s::float8 AS delay_seconds
      FROM jobqueue_job AS job
     WHERE job.id = ANY (%(ids)s::bigint[]) AND job.status + 0 = 4 /* DEAD */
       AND (job.dedupe_key IS NULL
            OR NOT EXISTS (SELECT FROM jobqueue_job AS other
                            WHERE other.dedupe_key = job.dedupe_key AND other.status IN (1, 2, 5, 6) /* active */)
           AND NOT EXISTS (SELECT FROM jobqueue_job AS newer
                            WHERE newer.dedupe_key = job.dedupe_key AND newer.status = 4 /* DEAD */ AND newer.id > job.id))
     ORDER BY job.id
       FOR NO KEY UPDATE),
ordered AS (
    SELECT id, delay_seconds FROM chosen ORDER BY dedupe_key COLLATE "C")
UPDATE jobqueue_job AS job
   SET status = CASE WHEN ordered.delay_seconds > 0 OR %(not_before)s::timestamptz > statement_timestamp()
                     THEN 5 /* SCHEDULED */ ELSE 1 /* PENDING */ END,
       run_after = greatest(statement_timestamp(), %(not_before)s::timestamptz) + make_interval(secs => ordered.delay_seconds),
       attempts = 0, interruptions = 0, finished_at = NULL, worker_id = NULL, cancel_requested_at = NULL, unknown_since = NULL,
       progress = NULL, updated_at = statement_timestamp()
  FROM ordered
 WHERE job.id = ordered.id AND job.status + 0 = 4 /* DEAD */
RETURNING job.id, job.status, job.queue
