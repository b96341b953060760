-- Sum what was counted under one name since an instant, or in the window up to now.
-- Params:  name text, labels text (JSON object that a row's labels contain), since timestamptz, window interval (one is NULL)
-- Returns: one row (amount float8; 0 for nothing)
-- Locks:   none
-- Index:   jobqueue_counter_name
-- The first condition on the time is for the index, the second, by the end of a row's span, for the truth.
SELECT COALESCE(sum(counter.amount), 0)::float8 AS amount
  FROM jobqueue_counter AS counter
 WHERE counter.name = %(name)s::text
   AND counter.at > COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval) - interval '15 minutes'
   AND counter.at + make_interval(secs => counter.span_seconds)
       > COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval)
   AND counter.labels @> %(labels)s::jsonb
