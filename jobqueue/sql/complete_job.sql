-- Finish one leased job inside the handler's own transaction, if this attempt still owns it, and count it.
-- Params:  id bigint, worker_id text, lease_epoch bigint, result text (JSON), run_seconds float8, cpu_seconds float8, cost numeric,
--          cost_lines text (JSON array of component, unit, amount)
-- Returns: one row (id), or none when the lease is lost
-- Locks:   that row
-- Index:   primary key
-- Buckets of waits and runs: jobqueue/histograms.py has the formula.
WITH settled AS (
    UPDATE jobqueue_job
       SET status = 3 /* DONE */, outcome = 1 /* done */, result = %(result)s::jsonb, finished_at = statement_timestamp(),
           run_started_at = statement_timestamp() - make_interval(secs => %(run_seconds)s::float8),
           first_started_at = COALESCE(first_started_at, statement_timestamp() - make_interval(secs => %(run_seconds)s::float8)),
           lease_until = NULL, unknown_since = NULL, progress = NULL, open_costs = NULL,
           cpu_seconds = %(cpu_seconds)s::float8, cost_last = %(cost)s::numeric,
           cost_total = greatest(least(cost_total + %(cost)s::numeric, 999999999999.99999999), -999999999999.99999999), updated_at = statement_timestamp()
     WHERE id = %(id)s AND status + 0 = 2 /* RUNNING */ AND worker_id = %(worker_id)s AND lease_epoch = %(lease_epoch)s
    RETURNING id, queue, job_type, owner,
              extract(epoch FROM claimed_at - least(greatest(run_after, 'epoch'), claimed_at))::float8 AS wait_seconds),
counted AS (
    INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds,
                               wait_buckets, run_buckets)
    SELECT queue, job_type, 1 /* done */, 1, 0, greatest(wait_seconds, 0), %(run_seconds)s::float8,
           COALESCE(%(cpu_seconds)s::float8, 0),
           ARRAY[least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(wait_seconds, 0.0001)) + 20.931568570324174)))::smallint],
           ARRAY[least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(%(run_seconds)s::float8, 0.0001)) + 20.931568570324174)))::smallint]
      FROM settled),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT settled.queue, settled.job_type, settled.owner, line.component, line.unit, line.amount
      FROM jsonb_to_recordset(%(cost_lines)s::jsonb) AS line (component text, unit text, amount numeric(20, 8)) CROSS JOIN settled)
SELECT id FROM settled
