-- Begin a request to a host, unless enough are under way or the host is left alone after failures.
-- Params:  name text, most int (requests at a time), seconds float8 (after which this one counts no more, whatever became of it)
-- Returns: one row (token timestamptz, wait_seconds float8): a token to give back, or NULL and for how long the host is left alone
--          (0: it is only busy)
-- Locks:   that row
-- Index:   primary key
-- After five failures in a row one request at a time tries whether the host is well again.
WITH taken AS (
    INSERT INTO jobqueue_host AS host (name, busy_until)
    VALUES (%(name)s, ARRAY[statement_timestamp() + make_interval(secs => %(seconds)s::float8 + random())])
    ON CONFLICT (name) DO UPDATE
       SET busy_until = ARRAY(SELECT until FROM unnest(host.busy_until) AS until WHERE until > statement_timestamp())
                        || EXCLUDED.busy_until
     WHERE (host.open_until IS NULL OR host.open_until <= statement_timestamp())
       AND (SELECT count(*) FROM unnest(host.busy_until) AS until WHERE until > statement_timestamp())
           < CASE WHEN host.failures >= 5 THEN 1 ELSE %(most)s::int END
    RETURNING busy_until[cardinality(busy_until)] AS token)
SELECT token, 0::float8 AS wait_seconds FROM taken
UNION ALL
SELECT NULL, greatest(0, COALESCE(extract(epoch FROM open_until - statement_timestamp()), 0))::float8
  FROM jobqueue_host
 WHERE name = %(name)s AND NOT EXISTS (SELECT FROM taken)
