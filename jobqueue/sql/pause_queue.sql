-- Pause one queue, or all ('*'); of a queue that is paused already: say who pauses it now, why and for how long.
-- Params:  name text, paused_by text, reason text, resumes_at timestamptz (NULL: when somebody resumes it),
--          yields bool (a person's pause that is in force stays as it is: budgets ask so)
-- Returns: one row (paused_at, resumes_at), or none where a person's pause stayed
-- Locks:   that row
-- Index:   primary key
INSERT INTO jobqueue_queue AS queue (name, paused_at, paused_by, reason, resumes_at)
VALUES (%(name)s, statement_timestamp(), %(paused_by)s, %(reason)s, %(resumes_at)s::timestamptz)
ON CONFLICT (name) DO UPDATE
   SET paused_at = CASE WHEN queue.resumes_at <= statement_timestamp() THEN EXCLUDED.paused_at
                        ELSE COALESCE(queue.paused_at, EXCLUDED.paused_at) END,
       paused_by = EXCLUDED.paused_by, reason = EXCLUDED.reason, resumes_at = EXCLUDED.resumes_at
 WHERE NOT %(yields)s::bool OR queue.paused_at IS NULL OR queue.resumes_at <= statement_timestamp()
    OR starts_with(queue.paused_by, 'budget:')
RETURNING paused_at, resumes_at
