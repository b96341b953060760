-- Sum the statistics of the last while by queue: by outcome, and the times by bucket; single settles and folded rows together.
-- Params:  window interval
-- Returns: (queue, outcome, jobs, dead, seconds float8 (that the rows stand for), NULL, NULL, NULL) of each queue and outcome, and
--          (queue, NULL, NULL, NULL, NULL, bucket int, waits, runs) of each queue and bucket
-- Locks:   none
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket
-- As read_statistics.sql has it for any window, but one pass over the buckets: the snapshot asks for this every few seconds.
-- Of folded rows that begin before the window the first condition is for the index, the last one for the truth. None begins
-- later than now: without that a generic plan expects a third of the table.
WITH lately AS MATERIALIZED (
    SELECT at, queue, outcome, jobs, dead, wait_buckets, run_buckets, wait_counts, run_counts FROM jobqueue_stat
     WHERE span_seconds < 900 AND span_seconds = 0 AND at > statement_timestamp() - %(window)s::interval AND at <= statement_timestamp()
    UNION ALL
    SELECT at, queue, outcome, jobs, dead, wait_buckets, run_buckets, wait_counts, run_counts FROM jobqueue_stat
     WHERE span_seconds > 0 AND at > statement_timestamp() - %(window)s::interval - interval '15 minutes' AND at <= statement_timestamp()
       AND at + make_interval(secs => span_seconds) > statement_timestamp() - %(window)s::interval),
timed AS (
    SELECT lately.queue, (place.number - 1)::int AS bucket, place.waits, place.runs
      FROM lately CROSS JOIN LATERAL unnest(lately.wait_counts, lately.run_counts) WITH ORDINALITY AS place (waits, runs, number)
    UNION ALL
    SELECT lately.queue, unnest(lately.wait_buckets)::int, 1, 0 FROM lately
    UNION ALL
    SELECT lately.queue, unnest(lately.run_buckets)::int, 0, 1 FROM lately)
SELECT queue, outcome, sum(jobs)::bigint AS jobs, sum(dead)::bigint AS dead,
       extract(epoch FROM statement_timestamp() - least(statement_timestamp() - %(window)s::interval, min(min(at)) OVER ()))::float8 AS seconds,
       NULL::int AS bucket, NULL::bigint AS waits, NULL::bigint AS runs
  FROM lately GROUP BY queue, outcome
UNION ALL
SELECT queue, NULL, NULL, NULL, NULL, bucket, sum(waits)::bigint, sum(runs)::bigint FROM timed GROUP BY queue, bucket
