-- Estimate how many rows indexes have, as the planner does: the density at the last vacuum or analyze times the size now.
-- Params:  indexes text[] (names as the search path finds them)
-- Returns: (index text, jobs bigint; NULL before the first vacuum or analyze) of each that exists
-- Locks:   those indexes in ACCESS SHARE
-- Index:   none (the catalogue)
SELECT wanted.name AS "index",
       CASE WHEN found.reltuples > 0 AND found.relpages > 0
            THEN (found.reltuples * greatest(1, pg_relation_size(found.oid)::float8 / (current_setting('block_size')::int * found.relpages::float8)))::bigint
       END AS jobs
  FROM unnest(%(indexes)s::text[]) AS wanted (name) JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
