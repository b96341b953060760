-- Take ids for a bulk enqueue from the table's own sequence, and the database's time beside them.
-- Params:  take int
-- Returns: one row (first bigint, ids bigint[], now timestamptz); ids is NULL when they follow one another from the first
-- Locks:   none
-- Index:   none
WITH found AS MATERIALIZED (SELECT pg_get_serial_sequence('jobqueue_job', 'id')::regclass AS sequence)
SELECT min(id) AS first, CASE WHEN max(id) - min(id) + 1 <> count(*) THEN array_agg(id ORDER BY id) END AS ids,
       statement_timestamp() AS now
  FROM (SELECT nextval(found.sequence) AS id FROM generate_series(1, %(take)s::int), found) AS reserved
