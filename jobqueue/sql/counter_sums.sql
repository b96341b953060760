-- Sum what was counted since an instant, or in the window up to now, by name and labels.
-- Params:  since timestamptz, window interval (one is NULL)
-- Returns: (name, labels text, amount float8), by name and labels
-- Locks:   none
-- Index:   jobqueue_counter_fold, jobqueue_counter_bucket (or jobqueue_counter_name, by a skip scan)
-- Single and folded rows apart, each by the partial index that it has. The first condition on the time is for the index,
-- the second, by the end of a row's span, for the truth.
WITH edge AS (SELECT COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval) AS since)
SELECT name, labels::text, sum(amount)::float8 AS amount
  FROM (SELECT counter.name, counter.labels, counter.amount
          FROM edge JOIN jobqueue_counter AS counter
            ON counter.span_seconds < 900 AND counter.span_seconds = 0 AND counter.at > edge.since
         UNION ALL
        SELECT counter.name, counter.labels, counter.amount
          FROM edge JOIN jobqueue_counter AS counter
            ON counter.span_seconds > 0 AND counter.at > edge.since - interval '15 minutes'
           AND counter.at + make_interval(secs => counter.span_seconds) > edge.since) AS counted
 GROUP BY name, labels
 ORDER BY name, labels
