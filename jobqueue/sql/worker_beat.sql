-- Say that a worker is alive, and what it is doing.
-- Params:  worker_id text, name text, hostname text, pid int, version text, queues text[], job_types text[], slots int, busy int,
--          idle bool (NULL: as it was), sleeping bool (what that is for a row that was removed meanwhile),
--          claimed_seconds float8 (since its last good claim loop, NULL: none yet), stopping bool
-- Returns: nothing
-- Locks:   that row
-- Index:   primary key
INSERT INTO jobqueue_worker (worker_id, name, hostname, pid, version, queues, job_types, slots, busy, claimed_at, stopping, idle_since)
VALUES (%(worker_id)s, %(name)s, %(hostname)s, %(pid)s, %(version)s, %(queues)s, %(job_types)s, %(slots)s, %(busy)s,
        statement_timestamp() - make_interval(secs => %(claimed_seconds)s::float8), %(stopping)s,
        CASE WHEN COALESCE(%(idle)s::bool, %(sleeping)s::bool) THEN statement_timestamp() END)
ON CONFLICT (worker_id) DO UPDATE
   SET heartbeat_at = statement_timestamp(), busy = EXCLUDED.busy, slots = EXCLUDED.slots, stopping = EXCLUDED.stopping,
       claimed_at = COALESCE(EXCLUDED.claimed_at, jobqueue_worker.claimed_at),
       idle_since = CASE WHEN %(idle)s::bool IS NULL THEN jobqueue_worker.idle_since
                         WHEN %(idle)s::bool THEN COALESCE(jobqueue_worker.idle_since, statement_timestamp()) END
