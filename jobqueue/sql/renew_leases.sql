-- Renew this worker's leases, and tell for each whether it was renewed, is locked (still ours) or is lost.
-- Params:  worker_id text, ids bigint[], epochs bigint[], run_seconds float8[] (since the handler started, NULL: not yet),
--          lease interval
-- Returns: (id, verdict 'renewed' | 'locked' | 'lost', cancel: a cancel was requested) for each id given
-- Locks:   those rows, in id order, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead. LATERAL:
-- joined, a planner that believes no row is this worker's would compare each running row with each given one.
-- Index:   primary key; the update is HOT (it writes no indexed column)
WITH given AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(run_seconds)s::float8[]) AS given (id, lease_epoch, run_seconds)),
held AS MATERIALIZED (
    SELECT given.*
      FROM given
     CROSS JOIN LATERAL (
           SELECT FROM jobqueue_job AS job
            WHERE job.id = given.id
              AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
              FOR NO KEY UPDATE SKIP LOCKED) AS job),
renewed AS (
    UPDATE jobqueue_job AS job
       SET lease_until = statement_timestamp() + %(lease)s::interval, updated_at = statement_timestamp(),
           run_started_at = COALESCE(job.run_started_at, statement_timestamp() - make_interval(secs => held.run_seconds)),
           first_started_at = COALESCE(job.first_started_at, statement_timestamp() - make_interval(secs => held.run_seconds))
      FROM held
     WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
    RETURNING job.id)
SELECT given.id,
       CASE WHEN given.id IN (SELECT id FROM renewed) THEN 'renewed'
            WHEN job.id IS NOT NULL THEN 'locked' ELSE 'lost' END AS verdict,
       job.cancel_requested_at IS NOT NULL AS cancel
  FROM given
  LEFT JOIN LATERAL (
       SELECT job.id, job.cancel_requested_at FROM jobqueue_job AS job
        WHERE given.id = job.id
          AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
        LIMIT 1) AS job ON true
