-- Write how far budgets are spent.
-- Params:  names text[], starts timestamptz[], ends timestamptz[], units text[], amounts numeric[], spents numeric[],
--          levels smallint[], refuses bool[], pauses bool[]
-- Returns: nothing
-- Locks:   those rows (one worker writes at a time: it holds the service's lock)
-- Index:   primary key
INSERT INTO jobqueue_budget (name, window_start, window_end, unit, amount, spent, level, refuses, pauses)
SELECT name, starts_at, ends_at, unit, amount, spent, level, refuses, pauses
  FROM unnest(%(names)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[], %(units)s::text[],
              %(amounts)s::numeric[], %(spents)s::numeric[], %(levels)s::smallint[], %(refuses)s::bool[], %(pauses)s::bool[])
       AS given (name, starts_at, ends_at, unit, amount, spent, level, refuses, pauses)
ON CONFLICT (name) DO UPDATE
   SET window_start = EXCLUDED.window_start, window_end = EXCLUDED.window_end, unit = EXCLUDED.unit, amount = EXCLUDED.amount,
       spent = EXCLUDED.spent, level = EXCLUDED.level, refuses = EXCLUDED.refuses, pauses = EXCLUDED.pauses,
       updated_at = statement_timestamp()
