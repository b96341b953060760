-- Fold one batch of counter rows of one span into rows of a longer one. Sums read both, so no total ever changes.
-- Params:  from_span int (seconds; 0: as inserted), to_span int, age interval (leave younger rows), take int
-- Returns: one row (rows bigint folded)
-- Locks:   those rows, stepping over locked ones, and the long rows they go into
-- Index:   jobqueue_counter_fold, jobqueue_counter_bucket, primary key
-- The literal 900 (quarter-hours are never folded) keeps any plan on the small partial index; the array keeps the deletion
-- on the primary key, where a generic plan, which knows no limit, would read the whole table.
-- Longer names and labels than a handler can give are cut, which only rows written by hand have: the index has its limit.
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_counter
     WHERE span_seconds < 900 AND span_seconds = %(from_span)s::smallint AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM jobqueue_counter AS counter WHERE counter.id = ANY (ARRAY(SELECT id FROM old)) RETURNING counter.*),
folded AS (
    INSERT INTO jobqueue_counter AS counter (at, span_seconds, name, labels, amount)
    SELECT to_timestamp(floor(extract(epoch FROM at) / %(to_span)s::int) * %(to_span)s::int) AS bucket, %(to_span)s::smallint,
           left(name, 63) AS counter_name,
           CASE WHEN octet_length(labels::text) > 2000 THEN '{}'::jsonb ELSE labels END AS counter_labels, sum(amount)
      FROM gone GROUP BY bucket, counter_name, counter_labels
     ORDER BY bucket, counter_name, counter_labels
    ON CONFLICT (at, span_seconds, name, labels) WHERE span_seconds > 0 DO UPDATE
       SET amount = counter.amount + EXCLUDED.amount)
SELECT count(*) AS rows FROM gone
