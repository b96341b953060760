-- Say that a worker is alive, and what it is doing; and write down what its handlers have counted.
-- Params:  worker_id text, name text, hostname text, pid int, version text, release text, queues text[], job_types text[], slots int, busy int,
--          idle bool (NULL: as it was), sleeping bool (what that is for a row that was removed meanwhile),
--          claimed_seconds float8 (since its last good claim loop, NULL: none yet), stopping bool, jobs_ended bigint,
--          jobs_per_second float8, memory_bytes bigint, clock_skew_seconds float8, listening bool, gauges text (JSON array) (each NULL: as it was),
--          batch bigint (number of the counts), counts text (JSON array of name, labels, amount)
-- Returns: one row (seconds float8 since 1970, by the server's clock when it got this)
-- Locks:   that row
-- Index:   primary key
-- A batch of counts that stands in the row already was written by a beat whose answer got lost. The row is locked before
-- it is read, so that such a beat, if it is still under way, is waited for. The row's number is read before the upsert
-- changes it: a lock taken after that would find the row changed by this very statement, and would leave it out.
WITH known AS MATERIALIZED (
    SELECT counts_batch FROM jobqueue_worker WHERE worker_id = %(worker_id)s::text FOR NO KEY UPDATE),
counted AS (
    INSERT INTO jobqueue_counter (name, labels, amount)
    SELECT given.name, given.labels, given.amount
      FROM jsonb_to_recordset(%(counts)s::jsonb) AS given (name text, labels jsonb, amount float8)
     WHERE NOT EXISTS (SELECT FROM known WHERE known.counts_batch >= %(batch)s::bigint))
INSERT INTO jobqueue_worker (worker_id, name, hostname, pid, version, release, queues, job_types, slots, busy, claimed_at, stopping, idle_since,
                             jobs_ended, jobs_per_second, memory_bytes, clock_skew_seconds, listening, gauges, counts_batch)
SELECT %(worker_id)s::text, %(name)s::text, %(hostname)s::text, %(pid)s::int, %(version)s::text, %(release)s::text, %(queues)s::text[],
       %(job_types)s::text[], %(slots)s::int, %(busy)s::int,
       statement_timestamp() - make_interval(secs => %(claimed_seconds)s::float8), %(stopping)s::bool,
       CASE WHEN COALESCE(%(idle)s::bool, %(sleeping)s::bool) THEN statement_timestamp() END,
       COALESCE(%(jobs_ended)s::bigint, 0), %(jobs_per_second)s::float8, %(memory_bytes)s::bigint, %(clock_skew_seconds)s::float8, %(listening)s::bool,
       COALESCE(%(gauges)s::jsonb, '[]'), %(batch)s::bigint
  FROM (SELECT count(*) FROM known) AS before
ON CONFLICT (worker_id) DO UPDATE
   SET heartbeat_at = statement_timestamp(), busy = EXCLUDED.busy, slots = EXCLUDED.slots, stopping = EXCLUDED.stopping,
       claimed_at = COALESCE(EXCLUDED.claimed_at, jobqueue_worker.claimed_at),
       jobs_ended = COALESCE(%(jobs_ended)s::bigint, jobqueue_worker.jobs_ended),
       jobs_per_second = COALESCE(EXCLUDED.jobs_per_second, jobqueue_worker.jobs_per_second),
       memory_bytes = COALESCE(EXCLUDED.memory_bytes, jobqueue_worker.memory_bytes),
       clock_skew_seconds = COALESCE(EXCLUDED.clock_skew_seconds, jobqueue_worker.clock_skew_seconds),
       listening = COALESCE(EXCLUDED.listening, jobqueue_worker.listening),
       gauges = COALESCE(%(gauges)s::jsonb, jobqueue_worker.gauges),
       counts_batch = greatest(EXCLUDED.counts_batch, jobqueue_worker.counts_batch),
       idle_since = CASE WHEN %(idle)s::bool IS NULL THEN jobqueue_worker.idle_since
                         WHEN %(idle)s::bool THEN COALESCE(jobqueue_worker.idle_since, statement_timestamp()) END
RETURNING extract(epoch FROM statement_timestamp())::float8 AS seconds
