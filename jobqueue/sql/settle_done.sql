-- Finish leased jobs as DONE, where this worker's attempt still owns them, and count them.
-- Params:  worker_id text, ids bigint[], epochs bigint[], results text[] (JSON), run_seconds float8[], cpu_seconds float8[],
--          peak_memory bigint[], costs numeric[], cost_lines text (JSON array of job id, component, unit, amount)
-- Returns: (id) of each finished job; what is missing is no longer ours
-- Locks:   those rows, in id order (an unordered settle deadlocks with renewals and bulk actions)
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead. LATERAL:
-- joined, a planner that believes no row is this worker's would compare each running row with each given one.
-- Index:   primary key
-- Buckets of waits and runs: jobqueue/histograms.py has the formula; one entry a job, which fold_stats counts.
WITH given AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(results)s::text[], %(run_seconds)s::float8[],
                         %(cpu_seconds)s::float8[], %(peak_memory)s::bigint[], %(costs)s::numeric[])
                  AS given (id, lease_epoch, result, run_seconds, cpu_seconds, peak_memory, cost)),
held AS MATERIALIZED (
    SELECT given.*
      FROM (SELECT * FROM given ORDER BY given.id) AS given
     CROSS JOIN LATERAL (
           SELECT FROM jobqueue_job AS job
            WHERE job.id = given.id
              AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
              FOR NO KEY UPDATE) AS job),
settled AS (
    UPDATE jobqueue_job AS job
       SET status = 3 /* DONE */, outcome = 1 /* done */, result = held.result::jsonb, finished_at = statement_timestamp(),
           run_started_at = statement_timestamp() - make_interval(secs => held.run_seconds),
           first_started_at = COALESCE(job.first_started_at, statement_timestamp() - make_interval(secs => held.run_seconds)),
           lease_until = NULL, unknown_since = NULL, progress = NULL, open_costs = NULL, cpu_seconds = held.cpu_seconds,
           peak_memory_bytes = held.peak_memory, cost_last = held.cost,
           cost_total = greatest(least(job.cost_total + held.cost, 999999999999.99999999), -999999999999.99999999), updated_at = statement_timestamp()
      FROM held
     WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
    RETURNING job.id, job.queue, job.job_type, job.owner, job.cpu_seconds, job.peak_memory_bytes, held.run_seconds,
              extract(epoch FROM job.claimed_at - least(greatest(job.run_after, 'epoch'), job.claimed_at))::float8 AS wait_seconds),
counted AS (
    INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes,
                               wait_buckets, run_buckets)
    SELECT queue, job_type, 1 /* done */, count(*), 0, sum(greatest(wait_seconds, 0)), sum(run_seconds),
           sum(COALESCE(cpu_seconds, 0)), max(peak_memory_bytes),
           array_agg(least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(wait_seconds, 0.0001)) + 20.931568570324174)))::smallint),
           array_agg(least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(run_seconds, 0.0001)) + 20.931568570324174)))::smallint)
      FROM settled GROUP BY queue, job_type),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT settled.queue, settled.job_type, settled.owner, line.component, line.unit, line.amount
      FROM jsonb_to_recordset(%(cost_lines)s::jsonb) AS line (id bigint, component text, unit text, amount numeric(20, 8))
      JOIN settled ON settled.id = line.id)
SELECT id FROM settled
