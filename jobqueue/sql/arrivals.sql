-- Tell how many jobs were enqueued lately, by queue, from the newest rows.
-- Params:  take int (rows to look at), span interval (to look back)
-- Returns: (queue, jobs, complete bool: these are all of the span) of each queue among the newest rows
-- Locks:   none
-- Index:   primary key
WITH newest AS MATERIALIZED (
    SELECT queue, created_at FROM jobqueue_job ORDER BY id DESC LIMIT %(take)s::int),
reach AS (
    SELECT count(*) < %(take)s::int OR min(created_at) < statement_timestamp() - %(span)s::interval AS complete FROM newest)
SELECT newest.queue, count(*) FILTER (WHERE newest.created_at >= statement_timestamp() - %(span)s::interval) AS jobs, reach.complete
  FROM newest CROSS JOIN reach GROUP BY newest.queue, reach.complete
