-- Estimate how many jobs were enqueued lately, by queue: so many ids were given out, and a sample says to which queues.
-- Params:  span interval (to look back), chunks int (places in that range to look at), take int (rows at each)
-- Returns: (queue, jobs float8) of each queue in the sample
-- Locks:   none
-- Index:   primary key
-- The first id of the span is found by halving: some forty looks at one row each, at any size of the table. Ids that were
-- rolled back count, and so do jobs that are deleted already, but for those before the oldest row.
WITH RECURSIVE newest AS (
    SELECT min(id) AS oldest, max(id) AS id FROM jobqueue_job),
halving AS (
    SELECT newest.oldest - 1 AS before, newest.id AS within FROM newest WHERE newest.id IS NOT NULL
    UNION ALL
    SELECT CASE WHEN middle.young THEN halving.before ELSE middle.id END, CASE WHEN middle.young THEN middle.id ELSE halving.within END
      FROM halving CROSS JOIN LATERAL (
           SELECT half.id, (SELECT created_at FROM jobqueue_job WHERE jobqueue_job.id >= half.id ORDER BY jobqueue_job.id LIMIT 1)
                           >= statement_timestamp() - %(span)s::interval AS young
             FROM (SELECT (halving.before + halving.within) / 2 AS id) AS half) AS middle
     WHERE halving.within - halving.before > 1),
ids AS MATERIALIZED (
    SELECT min(halving.within) AS first, newest.id - min(halving.within) + 1 AS given FROM halving CROSS JOIN newest GROUP BY newest.id),
sample AS MATERIALIZED (
    SELECT place.queue
      FROM ids CROSS JOIN generate_series(0, %(chunks)s::int - 1) AS chunk
           CROSS JOIN LATERAL (
           SELECT queue FROM jobqueue_job WHERE id >= ids.first + ids.given * chunk / %(chunks)s::int ORDER BY id LIMIT %(take)s::int) AS place)
SELECT sample.queue, ids.given * count(*)::float8 / sum(count(*)) OVER () AS jobs
  FROM sample CROSS JOIN ids GROUP BY sample.queue, ids.given
