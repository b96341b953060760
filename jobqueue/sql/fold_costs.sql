-- Fold one batch of cost rows of one span into rows of a longer one. Sums read both, so no total ever changes.
-- Params:  from_span int (seconds; 0: as inserted), to_span int, age interval (leave younger rows), take int
-- Returns: one row (rows bigint folded)
-- Locks:   those rows, stepping over locked ones, and the long rows they go into
-- Index:   jobqueue_cost_fold, jobqueue_cost_bucket, primary key
-- The literal 900 (quarter-hours are never folded) keeps any plan on the small partial index; the array keeps the deletion
-- on the primary key, where a generic plan, which knows no limit, would read the whole table.
-- Longer names than enqueue takes are cut, which only rows written by hand have: the index of the buckets has its limit.
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_cost
     WHERE span_seconds < 900 AND span_seconds = %(from_span)s::smallint AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM jobqueue_cost AS cost WHERE cost.id = ANY (ARRAY(SELECT id FROM old)) RETURNING cost.*),
folded AS (
    INSERT INTO jobqueue_cost AS cost (at, span_seconds, queue, job_type, owner, component, unit, amount)
    SELECT to_timestamp(floor(extract(epoch FROM at) / %(to_span)s::int) * %(to_span)s::int) AS bucket, %(to_span)s::smallint,
           left(queue, 63) AS queue_name, left(job_type, 63) AS type_name, left(owner, 255) AS owner_name, component, unit, sum(amount)
      FROM gone GROUP BY bucket, queue_name, type_name, owner_name, component, unit
     ORDER BY bucket, queue_name, type_name, owner_name, component, unit
    ON CONFLICT (at, span_seconds, queue, job_type, owner, component, unit) WHERE span_seconds > 0 DO UPDATE
       SET amount = cost.amount + EXCLUDED.amount)
SELECT count(*) AS rows FROM gone
