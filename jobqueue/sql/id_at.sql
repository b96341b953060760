-- Find about where in the ids a time lies: jobs with smaller ids were enqueued before it, but for those of a few seconds.
-- Params:  at timestamptz
-- Returns: one row (id bigint: the first one that was enqueued then or later, or one above the newest)
-- Locks:   none
-- Index:   primary key
-- By halves: each step looks at one row, so a table of any size takes some twenty of them.
WITH RECURSIVE halved (low, high) AS (
    SELECT 0::bigint, COALESCE((SELECT max(id) FROM jobqueue_job), 0) + 1
    UNION ALL
    SELECT CASE WHEN probe.created_at < %(at)s::timestamptz THEN probe.id ELSE halved.low END,
           CASE WHEN probe.created_at < %(at)s::timestamptz THEN halved.high ELSE (halved.low + halved.high) / 2 END
      FROM halved
      LEFT JOIN LATERAL (
               SELECT id, created_at FROM jobqueue_job
                WHERE id >= (halved.low + halved.high) / 2 AND id < halved.high
                ORDER BY id
                LIMIT 1) AS probe ON true
     WHERE halved.high - halved.low > 1)
SELECT min(high) AS id FROM halved
