-- Read the gauges of the living workers.
-- Params:  name text (NULL: all), labels text (JSON object that a gauge's labels contain), alive interval (oldest heartbeat)
-- Returns: (worker_id, name, labels text, value float8, age_seconds float8), by worker, name and labels
-- Locks:   none
-- Index:   none (one row a worker)
-- A gauge is as old as its heartbeat, and as much as it was old then.
SELECT worker.worker_id, gauge.name, gauge.labels::text, gauge.value, age.seconds
  FROM jobqueue_worker AS worker
 CROSS JOIN LATERAL jsonb_to_recordset(CASE jsonb_typeof(worker.gauges) WHEN 'array' THEN worker.gauges ELSE '[]' END)
                    AS gauge (name text, labels jsonb, value float8, at_seconds_ago float8)
 CROSS JOIN LATERAL (SELECT gauge.at_seconds_ago
                            + extract(epoch FROM statement_timestamp() - worker.heartbeat_at)::float8) AS age (seconds)
 WHERE worker.heartbeat_at > statement_timestamp() - %(alive)s::interval AND age.seconds < 600
   AND (%(name)s::text IS NULL OR gauge.name = %(name)s::text) AND gauge.labels @> %(labels)s::jsonb
 ORDER BY worker.worker_id, gauge.name, gauge.labels
