-- Delete one batch of each kind of figures that are older than an age: statistics, costs, counters, resolved incidents.
-- Params:  age interval, take int
-- Returns: one row (stats, costs, counters, incidents bigint deleted)
-- Locks:   those rows, stepping over locked ones
-- Index:   jobqueue_stat_bucket, jobqueue_cost_at, jobqueue_counter_bucket, jobqueue_incident_recent, primary keys
-- Only folded rows go: what is that old and not folded yet is folded first. An incident that was resolved so long ago began
-- earlier: its beginning is for the index. The arrays keep the deletions on the primary keys whatever the plan.
WITH old_stats AS MATERIALIZED (
    SELECT id FROM jobqueue_stat
     WHERE span_seconds > 0 AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
stats AS (
    DELETE FROM jobqueue_stat WHERE id = ANY (ARRAY(SELECT id FROM old_stats)) RETURNING id),
old_costs AS MATERIALIZED (
    SELECT id FROM jobqueue_cost
     WHERE span_seconds > 0 AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
costs AS (
    DELETE FROM jobqueue_cost WHERE id = ANY (ARRAY(SELECT id FROM old_costs)) RETURNING id),
old_counters AS MATERIALIZED (
    SELECT id FROM jobqueue_counter
     WHERE span_seconds > 0 AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
counters AS (
    DELETE FROM jobqueue_counter WHERE id = ANY (ARRAY(SELECT id FROM old_counters)) RETURNING id),
old_incidents AS MATERIALIZED (
    SELECT id FROM jobqueue_incident
     WHERE broken_since < statement_timestamp() - %(age)s::interval
       AND state = 3 /* resolved */ AND resolved_at < statement_timestamp() - %(age)s::interval
     ORDER BY broken_since
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
incidents AS (
    DELETE FROM jobqueue_incident WHERE id = ANY (ARRAY(SELECT id FROM old_incidents)) RETURNING id)
SELECT (SELECT count(*) FROM stats) AS stats, (SELECT count(*) FROM costs) AS costs, (SELECT count(*) FROM counters) AS counters,
       (SELECT count(*) FROM incidents) AS incidents
