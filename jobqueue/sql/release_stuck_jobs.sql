-- Take stuck running jobs from their workers on a person's word, back to the queue or to the dead letters, and write down the attempt that ends so.
-- Params:  ids bigint[], reason text, dead bool (to the dead letters), patience_seconds float8, patient_types text[],
--          patient_seconds float8[] (of those types), notices bool, unit text (of cost_total)
-- Returns: (id, status, worker_id that loses it, queue) of each released job; what is missing is not stuck, or not running
-- Locks:   those rows, in id order, under the caller's lock_timeout
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key
-- The fence: a released row has no worker, and the next claim raises its epoch, so whatever the old worker still sends is
-- refused. Epoch and expiry are checked again by the update: a renewal may have come while this waited for the row.
-- What the attempt had cost so far is charged, to the last heartbeat that wrote it down.
-- What goes back to the queue gets its attempt back, as every run that was cut off by no fault of its own, and counts as an interruption.
-- What becomes a dead letter is charged its attempt, and its owner hears of it. A request to cancel wins over both.
WITH patient AS (
    SELECT * FROM unnest(%(patient_types)s::text[], %(patient_seconds)s::float8[]) AS patient (job_type, seconds)),
chosen AS MATERIALIZED (
    SELECT job.id, job.worker_id, job.lease_epoch, job.attempts, job.claimed_at, job.run_started_at, job.open_costs,
           concat(CASE WHEN %(dead)s::bool THEN 'marked dead' ELSE 'released' END, ' by a person while it was stuck',
                  ': ' || NULLIF(%(reason)s::text, '')) AS error_text,
           statement_timestamp() - make_interval(secs => COALESCE(patient.seconds, %(patience_seconds)s::float8)) AS started_before
      FROM jobqueue_job AS job LEFT JOIN patient ON patient.job_type = job.job_type
     WHERE job.id = ANY (%(ids)s::bigint[]) AND job.status + 0 = 2 /* RUNNING */
     ORDER BY job.id
       FOR NO KEY UPDATE OF job),
owed AS (
    SELECT chosen.id, left(line.value ->> 0, 63) AS component, line.value ->> 1 AS unit,
           CASE WHEN (line.value ->> 2) ~ '^-?[0-9]{1,12}([.][0-9]{1,8})?$' THEN (line.value ->> 2)::numeric END AS amount
      FROM chosen CROSS JOIN jsonb_array_elements(
           CASE jsonb_typeof(chosen.open_costs) WHEN 'array' THEN chosen.open_costs ELSE '[]' END) AS line
     WHERE (line.value ->> 0) IS NOT NULL AND (line.value ->> 1) IS NOT NULL
       AND (line.value ->> 2) ~ '^-?[0-9]{1,12}([.][0-9]{1,8})?$'),
bill AS (
    SELECT id, greatest(least(sum(amount), 999999999999.99999999), -999999999999.99999999) AS amount
      FROM owed WHERE unit = %(unit)s GROUP BY id),
released AS (
    UPDATE jobqueue_job AS job
       SET status = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 7 /* CANCELLED */ WHEN %(dead)s::bool THEN 4 /* DEAD */ ELSE 1 /* PENDING */ END,
           outcome = CASE WHEN job.cancel_requested_at IS NOT NULL THEN 8 /* cancelled */ WHEN %(dead)s::bool THEN 6 /* lease_expired */ ELSE 7 /* interrupted */ END,
           finished_at = CASE WHEN job.cancel_requested_at IS NOT NULL OR %(dead)s::bool THEN statement_timestamp() END,
           attempts = greatest(job.attempts - CASE WHEN %(dead)s::bool THEN 0 ELSE 1 END, 0),
           interruptions = least(job.interruptions, 32766) + CASE WHEN %(dead)s::bool THEN 0 ELSE 1 END,
           last_error = CASE WHEN %(dead)s::bool AND job.cancel_requested_at IS NULL THEN chosen.error_text ELSE job.last_error END,
           error_class = CASE WHEN %(dead)s::bool AND job.cancel_requested_at IS NULL THEN 'jobqueue.exceptions.LeaseLost' ELSE job.error_class END,
           fingerprint = CASE WHEN %(dead)s::bool AND job.cancel_requested_at IS NULL THEN 'marked-dead' ELSE job.fingerprint END,
           cost_last = COALESCE(bill.amount, 0), open_costs = NULL,
           cost_total = greatest(least(job.cost_total + COALESCE(bill.amount, 0), 999999999999.99999999), -999999999999.99999999),
           progress = CASE WHEN job.cancel_requested_at IS NOT NULL OR %(dead)s::bool THEN job.progress END,
           unknown_since = CASE WHEN job.run_started_at IS NULL THEN job.unknown_since END,
           worker_id = NULL, lease_until = NULL, updated_at = statement_timestamp()
      FROM chosen LEFT JOIN bill ON bill.id = chosen.id
     WHERE job.id = chosen.id AND job.status + 0 = 2 /* RUNNING */ AND job.lease_epoch = chosen.lease_epoch
       AND (job.lease_until < statement_timestamp()
            OR COALESCE(greatest(job.run_started_at, job.claimed_at), job.created_at) < chosen.started_before)
    RETURNING job.id, job.queue, job.job_type, job.owner, job.status, job.outcome, job.cost_last, chosen.worker_id,
              chosen.lease_epoch, chosen.attempts, chosen.claimed_at, chosen.run_started_at, chosen.error_text),
logged AS (
    INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome,
                                  error_class, error_text, fingerprint, cost)
    SELECT id, lease_epoch, attempts, COALESCE(worker_id, ''), claimed_at, run_started_at, statement_timestamp(), outcome,
           'jobqueue.exceptions.LeaseLost', error_text, CASE WHEN status = 4 /* DEAD */ THEN 'marked-dead' ELSE '' END, cost_last
      FROM released
    ON CONFLICT (job_id, lease_epoch) DO NOTHING),
counted AS (
    INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds)
    SELECT queue, job_type, outcome, count(*), count(*) FILTER (WHERE status = 4 /* DEAD */), 0, 0, 0
      FROM released GROUP BY queue, job_type, outcome),
charged AS (
    INSERT INTO jobqueue_cost (queue, job_type, owner, component, unit, amount)
    SELECT released.queue, released.job_type, released.owner, owed.component, owed.unit, owed.amount
      FROM owed JOIN released ON released.id = owed.id),
noticed AS (
    INSERT INTO jobqueue_job (job_type, queue, priority, max_attempts, payload, payload_bytes)
    SELECT 'jobqueue.notify', 'jobqueue', 0, 5, payload, octet_length(payload::text)
      FROM (SELECT queue, jsonb_build_object(
                       'job_id', id, 'job_type', job_type, 'queue', queue, 'owner', owner, 'outcome', outcome, 'reason', 'dead',
                       'error_class', 'jobqueue.exceptions.LeaseLost', 'error_text', left(error_text, 2000), 'attempts', attempts) AS payload
              FROM released
             WHERE %(notices)s AND status = 4 /* DEAD */ AND job_type <> 'jobqueue.notify') AS notice)
SELECT id, status, worker_id, queue FROM released
