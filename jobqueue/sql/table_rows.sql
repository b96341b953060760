-- Tell how many live and dead rows tables have, and when they were last vacuumed.
-- Params:  tables text[] (names as the search path finds them)
-- Returns: (table text, live_rows, dead_rows, last_autovacuum timestamptz, last_vacuum timestamptz) of each that exists
-- Locks:   none
-- Index:   none (the server's own statistics)
SELECT wanted.name AS "table", pg_stat_get_live_tuples(found.oid), pg_stat_get_dead_tuples(found.oid),
       pg_stat_get_last_autovacuum_time(found.oid), pg_stat_get_last_vacuum_time(found.oid)
  FROM unnest(%(tables)s::text[]) WITH ORDINALITY AS wanted (name, number)
       JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
 ORDER BY wanted.number
