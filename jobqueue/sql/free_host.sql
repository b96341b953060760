-- End a request to a host, and count whether the host is well.
-- Params:  name text, token timestamptz, well bool (NULL: nothing was learnt of it)
-- Returns: nothing
-- Locks:   that row
-- Index:   primary key
-- A host that is well and has no other request under way needs no row. After five failures in a row it is left alone for a minute, and twice
-- as long after each failed try, up to ten minutes; what fails meanwhile had begun before and counts no more.
WITH held AS MATERIALIZED (
    SELECT name, array_remove(busy_until, %(token)s::timestamptz) AS others, failures, open_until
      FROM jobqueue_host
     WHERE name = %(name)s
       FOR UPDATE),
gone AS (
    DELETE FROM jobqueue_host AS host USING held
     WHERE host.name = held.name AND held.others = '{}' AND COALESCE(%(well)s::bool, held.failures = 0)
    RETURNING host.name)
UPDATE jobqueue_host AS host
   SET busy_until = held.others,
       failures = CASE WHEN %(well)s::bool THEN 0
                       WHEN %(well)s::bool IS NULL OR held.open_until > statement_timestamp() THEN held.failures
                       ELSE least(held.failures, 1000) + 1 END,
       open_until = CASE WHEN %(well)s::bool THEN NULL
                         WHEN %(well)s::bool IS NULL OR held.open_until > statement_timestamp() OR held.failures < 4 THEN held.open_until
                         ELSE statement_timestamp() + least(600, 60 * 2 ^ least(held.failures - 4, 10)) * interval '1 second' END
  FROM held
 WHERE host.name = held.name AND NOT EXISTS (SELECT FROM gone)
