-- Take back jobs whose lease ran out: to PENDING while attempts are left, else to the dead letters.
-- Params:  take int, skip bigint[] (ids to step over), notices bool, unit text (of cost_total)
-- Returns: (id, status, worker_id that lost it, lease_epoch, queue) of each
-- Locks:   those rows, stepping over locked ones
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   jobqueue_job_running
-- A lease without an end is nobody's: only a row that was written by hand has one.
-- A run that had begun shows that its type was known. What a job had done when it died stays to be seen; the next try begins anew.
-- What the lost attempt had cost so far is charged, to the last heartbeat that wrote it down.
-- Status, epoch and expiry are checked again by the update: a settle may have committed after the list was read.
WITH expired AS MATERIALIZED (
    SELECT id, worker_id, lease_epoch, attempts, claimed_at, run_started_at, open_costs,
           concat_ws('', last_error, ' [lease-expired reclaim]') AS error_text,
           CASE WHEN cancel_requested_at IS NOT NULL THEN 7 /* CANCELLED */
                WHEN attempts >= max_attempts THEN 4 /* DEAD */ ELSE 1 /* PENDING */ END::smallint AS next_status
      FROM jobqueue_job
     WHERE status = 2 /* RUNNING */ AND COALESCE(lease_until, '-infinity') < statement_timestamp()
       AND NOT (id = ANY (%(skip)s::bigint[]))
     ORDER BY id
     LIMIT %(take)s
       FOR NO KEY UPDATE SKIP LOCKED),
owed AS (
    SELECT expired.id, left(line.value ->> 0, 63) AS component, line.value ->> 1 AS unit,
           CASE WHEN (line.value ->> 2) ~ '^-?[0-9]{1,12}([.][0-9]{1,8})?$' THEN (line.value ->> 2)::numeric END AS amount
      FROM expired CROSS JOIN jsonb_array_elements(
           CASE jsonb_typeof(expired.open_costs) WHEN 'array' THEN expired.open_costs ELSE '[]' END) AS line
     WHERE (line.value ->> 0) IS NOT NULL AND (line.value ->> 1) IS NOT NULL
       AND (line.value ->> 2) ~ '^-?[0-9]{1,12}([.][0-9]{1,8})?$'),
bill AS (
    SELECT id, greatest(least(sum(amount), 999999999999.99999999), -999999999999.99999999) AS amount
      FROM owed WHERE unit = %(unit)s GROUP BY id),
reaped AS (
    UPDATE jobqueue_job AS job
       SET status = expired.next_status, outcome = 6 /* lease_expired */,
           run_after = CASE WHEN expired.next_status = 1 /* PENDING */ THEN statement_timestamp() ELSE job.run_after END,
           finished_at = CASE WHEN expired.next_status <> 1 /* PENDING */ THEN statement_timestamp() END,
           last_error = expired.error_text,
           error_class = COALESCE(job.error_class, 'jobqueue.exceptions.LeaseLost'),
           fingerprint = left(COALESCE(job.fingerprint, 'lease-expired'), 255),
           cost_last = COALESCE(bill.amount, 0), open_costs = NULL,
           cost_total = greatest(least(job.cost_total + COALESCE(bill.amount, 0), 999999999999.99999999), -999999999999.99999999),
           progress = CASE WHEN expired.next_status <> 1 /* PENDING */ THEN job.progress END,
           unknown_since = CASE WHEN job.run_started_at IS NULL THEN job.unknown_since END,
           worker_id = NULL, lease_until = NULL, updated_at = statement_timestamp()
      FROM expired LEFT JOIN bill ON bill.id = expired.id
     WHERE job.id = expired.id AND job.status + 0 = 2 /* RUNNING */ AND job.lease_epoch = expired.lease_epoch
       AND COALESCE(job.lease_until, '-infinity') < statement_timestamp()
    RETURNING job.id, job.queue, job.job_type, job.owner, job.status, job.attempts, job.last_error, job.cost_last,
              expired.worker_id, expired.lease_epoch, expired.claimed_at, expired.run_started_at),
logged AS (
    INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome,
                                  error_class, error_text, traceback, fingerprint, cost)
    SELECT id, lease_epoch, attempts, COALESCE(worker_id, ''), claimed_at, run_started_at, statement_timestamp(),
           6 /* lease_expired */, 'jobqueue.exceptions.LeaseLost', 'worker lost: its lease ran out before it settled the job', '',
           'lease-expired', cost_last
      FROM reaped
    ON CONFLICT (job_id, lease_epoch) DO NOTHING),
counted AS (
    INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds)
    SELECT queue, job_type, 6 /* lease_expired */, count(*), count(*) FILTER (WHERE status = 4 /* DEAD */), 0, 0, 0
      FROM reaped GROUP BY queue, job_type),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT reaped.queue, reaped.job_type, reaped.owner, owed.component, owed.unit, owed.amount
      FROM owed JOIN reaped ON reaped.id = owed.id),
noticed AS (
    INSERT INTO jobqueue_job (job_type, queue, priority, max_attempts, payload, payload_bytes)
    SELECT 'jobqueue.notify', 'jobqueue', 0, 5, payload, octet_length(payload::text)
      FROM (SELECT queue, jsonb_build_object(
                       'job_id', id, 'job_type', job_type, 'queue', queue, 'owner', owner, 'outcome', 6, 'reason', 'dead',
                       'error_class', 'jobqueue.exceptions.LeaseLost', 'error_text', left(last_error, 2000), 'attempts', attempts) AS payload
              FROM reaped
             WHERE %(notices)s AND status = 4 /* DEAD */ AND job_type <> 'jobqueue.notify') AS notice)
SELECT id, status, worker_id, lease_epoch, queue FROM reaped
