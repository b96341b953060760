-- Wake the workers that sleep and serve one of these queues. It is a hint: a worker that misses it polls.
-- Params:  channel text, queues text[]
-- Returns: (queue) of each queue somebody was woken for
-- Locks:   none before the commit; with somebody idle, the database-wide notification lock across it
-- Index:   none (one row a worker)
SELECT queue, pg_notify(%(channel)s::text, queue)
  FROM unnest(%(queues)s::text[]) AS queue
 WHERE EXISTS (SELECT FROM jobqueue_worker AS worker
                WHERE worker.idle_since IS NOT NULL AND worker.queues && ARRAY[queue, '*']
                  AND worker.heartbeat_at > statement_timestamp() - interval '1 minute' /* else killed in its sleep */)
