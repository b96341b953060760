-- Give leased jobs back uncharged: they never started, were snoozed, or are of a type this worker does not know.
-- Params:  worker_id text, ids bigint[], epochs bigint[], delays float8[] (seconds, NULL: at once), unknowns bool[],
--          costs numeric[], cost_lines text (JSON array of job id, component, unit, amount)
-- Returns: (id, status) of each released job; what is missing is no longer ours
-- Locks:   those rows, in id order
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead. LATERAL:
-- joined, a planner that believes no row is this worker's would compare each running row with each given one.
-- Index:   primary key
WITH given AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(delays)s::float8[], %(unknowns)s::bool[],
                         %(costs)s::numeric[])
                  AS given (id, lease_epoch, delay_seconds, unknown, cost)),
held AS MATERIALIZED (
    SELECT given.*
      FROM (SELECT * FROM given ORDER BY given.id) AS given
     CROSS JOIN LATERAL (
           SELECT FROM jobqueue_job AS job
            WHERE job.id = given.id
              AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
              FOR NO KEY UPDATE) AS job),
released AS (
    UPDATE jobqueue_job AS job
       SET status = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 7 /* CANCELLED */
                         WHEN held.delay_seconds IS NULL THEN 1 /* PENDING */ ELSE 5 /* SCHEDULED */ END,
           outcome = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 8 /* cancelled */ ELSE job.outcome END,
           finished_at = CASE WHEN job.cancel_requested_at IS NOT NULL THEN statement_timestamp() END,
           run_after = CASE WHEN held.delay_seconds IS NULL THEN job.run_after
                            ELSE statement_timestamp() + make_interval(secs => held.delay_seconds) END,
           unknown_since = CASE WHEN held.unknown THEN least(job.unknown_since, statement_timestamp()) END,
           progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END,
           attempts = job.attempts - 1, worker_id = NULL, lease_until = NULL, open_costs = NULL,
           cost_total = greatest(least(job.cost_total + held.cost, 999999999999.99999999), -999999999999.99999999), updated_at = statement_timestamp()
      FROM held
     WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
    RETURNING job.id, job.status, job.queue, job.job_type, job.owner),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT released.queue, released.job_type, released.owner, line.component, line.unit, line.amount
      FROM jsonb_to_recordset(%(cost_lines)s::jsonb) AS line (id bigint, component text, unit text, amount numeric(20, 8))
      JOIN released ON released.id = line.id)
SELECT id, status FROM released
