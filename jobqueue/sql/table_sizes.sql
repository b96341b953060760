-- Tell how large tables are: the table with its TOAST and maps, and its indexes.
-- Params:  tables text[] (names as the search path finds them)
-- Returns: (table text, table_bytes, index_bytes) of each that exists
-- Locks:   those tables in ACCESS SHARE: it waits where somebody holds one for himself
-- Index:   none (the server looks at its files)
SELECT wanted.name AS "table", pg_table_size(found.oid), pg_indexes_size(found.oid)
  FROM unnest(%(tables)s::text[]) AS wanted (name) JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
