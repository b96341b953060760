-- End attempts that did not end well: retry, dead letter, cancel or give back, with an attempt row, counts and notices.
-- Params:  worker_id text, budget int (interruptions that cost nothing), notices bool,
--          endings text: a JSON array of objects (id, lease_epoch, outcome, step ('retry', 'dead', 'cancel', 'interrupt'),
--          delay_seconds, error_class, error_text, traceback, fingerprint, exit_code, run_seconds, cpu_seconds,
--          peak_memory, cost, limit_hit), cost_lines text (JSON array of job id, component, unit, amount)
-- Returns: (id, status) of each ended job; what is missing is no longer ours
-- Locks:   those rows, in id order
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead. LATERAL:
-- joined, a planner that believes no row is this worker's would compare each running row with each given one.
-- Index:   primary key
-- Buckets of waits and runs: jobqueue/histograms.py has the formula; one entry a job, which fold_stats counts.
-- What was refused unstarted has no run, and what is to be tried again no wait: its run_after is that of the retry.
-- A request to cancel wins over a retry and over a dead letter; an interruption gives its attempt back until the budget is spent.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(endings)s::jsonb) AS given (
           id bigint, lease_epoch bigint, outcome smallint, step text, delay_seconds float8, error_class text, error_text text,
           traceback text, fingerprint text, exit_code int, run_seconds float8, cpu_seconds float8, peak_memory bigint,
           cost numeric(20, 8), limit_hit boolean)),
held AS MATERIALIZED (
    SELECT given.*, job.attempts AS number,
           given.step = 'interrupt' AND job.interruptions < %(budget)s AND job.cancel_requested_at IS NULL AS spared,
           CASE WHEN job.cancel_requested_at IS NOT NULL OR given.step = 'cancel' THEN 7 /* CANCELLED */
                WHEN given.step = 'dead' THEN 4 /* DEAD */
                WHEN given.step = 'interrupt' AND job.interruptions < %(budget)s THEN 1 /* PENDING */
                WHEN job.attempts >= job.max_attempts THEN 4 /* DEAD */
                WHEN given.step = 'interrupt' THEN 1 /* PENDING */
                ELSE 5 /* SCHEDULED */ END::smallint AS next_status
      FROM (SELECT * FROM given ORDER BY given.id) AS given
     CROSS JOIN LATERAL (
           SELECT job.attempts, job.max_attempts, job.interruptions, job.cancel_requested_at FROM jobqueue_job AS job
            WHERE job.id = given.id
              AND job.status + 0 = 2 /* RUNNING */ AND job.worker_id = %(worker_id)s AND job.lease_epoch = given.lease_epoch
              FOR NO KEY UPDATE) AS job),
ended AS (
    UPDATE jobqueue_job AS job
       SET status = held.next_status, outcome = held.outcome,
           run_after = CASE WHEN held.next_status = 5 /* SCHEDULED */
                            THEN statement_timestamp() + make_interval(secs => held.delay_seconds) ELSE job.run_after END,
           finished_at = CASE WHEN held.next_status IN (4 /* DEAD */, 7 /* CANCELLED */) THEN statement_timestamp() END,
           attempts = job.attempts - CASE WHEN held.spared THEN 1 ELSE 0 END,
           interruptions = least(job.interruptions, 32766) + CASE WHEN held.step = 'interrupt' THEN 1 ELSE 0 END,
           run_started_at = statement_timestamp() - make_interval(secs => held.run_seconds),
           first_started_at = COALESCE(job.first_started_at, statement_timestamp() - make_interval(secs => held.run_seconds)),
           last_error = COALESCE(held.error_text, job.last_error), error_class = COALESCE(held.error_class, job.error_class),
           fingerprint = left(COALESCE(held.fingerprint, job.fingerprint), 255), lease_until = NULL,
           progress = CASE WHEN held.next_status IN (4 /* DEAD */, 7 /* CANCELLED */) THEN job.progress END,
           unknown_since = NULL, open_costs = NULL, cpu_seconds = held.cpu_seconds, peak_memory_bytes = held.peak_memory,
           cost_last = held.cost, cost_total = greatest(least(job.cost_total + held.cost, 999999999999.99999999), -999999999999.99999999), updated_at = statement_timestamp()
      FROM held
     WHERE job.id = held.id AND job.status + 0 = 2 /* RUNNING */
    RETURNING job.id, job.queue, job.job_type, job.owner, job.status, job.attempts, job.claimed_at, job.run_started_at,
              held.lease_epoch, held.number, held.outcome, held.error_class, held.error_text, held.traceback, held.fingerprint,
              held.exit_code, held.run_seconds, held.cpu_seconds, held.peak_memory, held.cost, held.limit_hit,
              extract(epoch FROM job.claimed_at - least(greatest(job.run_after, 'epoch'), job.claimed_at))::float8 AS wait_seconds),
logged AS (
    INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome,
                                  error_class, error_text, traceback, fingerprint, exit_code, cost, cpu_seconds, peak_memory_bytes)
    SELECT id, lease_epoch, number, %(worker_id)s, claimed_at, run_started_at, statement_timestamp(), outcome,
           COALESCE(error_class, ''), COALESCE(error_text, ''), COALESCE(traceback, ''), COALESCE(fingerprint, ''),
           exit_code, cost, cpu_seconds, peak_memory
      FROM ended
    ON CONFLICT (job_id, lease_epoch) DO NOTHING),
counted AS (
    INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes,
                               wait_buckets, run_buckets)
    SELECT queue, job_type, outcome, count(*), count(*) FILTER (WHERE status = 4 /* DEAD */),
           sum(CASE WHEN status = 5 /* SCHEDULED */ THEN 0 ELSE greatest(wait_seconds, 0) END), sum(run_seconds),
           sum(COALESCE(cpu_seconds, 0)), max(peak_memory),
           array_agg(least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(wait_seconds, 0.0001)) + 20.931568570324174)))::smallint)
               FILTER (WHERE status <> 5 /* SCHEDULED */),
           array_agg(least(63, greatest(0, floor(2.8853900817779268 * ln(greatest(run_seconds, 0.0001)) + 20.931568570324174)))::smallint)
               FILTER (WHERE outcome NOT IN (10 /* input_limit */, 11 /* unknown_type */))
      FROM ended GROUP BY queue, job_type, outcome),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT ended.queue, ended.job_type, ended.owner, line.component, line.unit, line.amount
      FROM jsonb_to_recordset(%(cost_lines)s::jsonb) AS line (id bigint, component text, unit text, amount numeric(20, 8))
      JOIN ended ON ended.id = line.id),
noticed AS (
    INSERT INTO jobqueue_job (job_type, queue, priority, max_attempts, payload, payload_bytes)
    SELECT 'jobqueue.notify', 'jobqueue', 0, 5, payload, octet_length(payload::text)
      FROM (SELECT queue, jsonb_build_object(
                       'job_id', id, 'job_type', job_type, 'queue', queue, 'owner', owner, 'outcome', outcome,
                       'reason', CASE WHEN limit_hit THEN 'limit' ELSE 'dead' END, 'error_class', COALESCE(error_class, ''),
                       'error_text', left(COALESCE(error_text, ''), 2000), 'attempts', attempts) AS payload
              FROM ended
             WHERE %(notices)s AND job_type <> 'jobqueue.notify' AND (status = 4 /* DEAD */ OR (limit_hit AND status <> 7))) AS notice)
SELECT id, status FROM ended
