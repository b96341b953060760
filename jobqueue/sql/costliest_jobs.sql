-- The jobs that cost most, dearest first, among those that ended or were last written not before an instant.
-- Params:  since timestamptz, window interval (one of the two is NULL: since then, or so long ago), take int,
--          reach int (jobs to look at, dearest first)
-- Returns: (id, job_type, queue, owner, status, attempts, cost_total, cost_last, at timestamptz) of each
-- Locks:   none
-- Index:   jobqueue_job_cost
-- Dear jobs of old times stand before those of the window: the reach bounds how many of them are looked at.
SELECT dearest.id, dearest.job_type, dearest.queue, dearest.owner, dearest.status, dearest.attempts, dearest.cost_total,
       dearest.cost_last, dearest.at
  FROM (SELECT id, job_type, queue, owner, status, attempts, cost_total, cost_last, COALESCE(finished_at, updated_at) AS at
          FROM jobqueue_job WHERE cost_total > 0
         ORDER BY cost_total DESC, id DESC
         LIMIT %(reach)s::int) AS dearest
 WHERE dearest.at >= COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval)
 ORDER BY dearest.cost_total DESC, dearest.id DESC
 LIMIT %(take)s::int
