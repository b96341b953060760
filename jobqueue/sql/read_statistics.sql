-- Sum the statistics of a window of time by moment, queue, type and outcome, single settles and folded rows together.
-- Params:  since timestamptz (NULL: `window` ago), window interval, until timestamptz (NULL: `until_ago`), until_ago interval
--          (NULL: now), starts timestamptz[] (of the moments, ascending), by_queue bool, by_type bool (else '' stands for all),
--          queue text, job_type text (NULL: any), times bool
-- Returns: (moment int from 0, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes,
--          covered_seconds float8 (from the earliest row's beginning, or the window's, to its end), wait_counts, run_counts bigint[])
-- Locks:   none
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket
-- A folded row stands for its whole span: of those that begin before the window the first condition is for the index (no span is
-- longer than a quarter of an hour), the second for the truth. Counts end with the highest bucket that has any; NULL without `times`.
WITH rows_of_both AS MATERIALIZED (
    SELECT at, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes,
           CASE WHEN %(times)s THEN wait_buckets END AS wait_buckets, CASE WHEN %(times)s THEN run_buckets END AS run_buckets,
           CASE WHEN %(times)s THEN wait_counts END AS wait_counts, CASE WHEN %(times)s THEN run_counts END AS run_counts
      FROM jobqueue_stat
     WHERE span_seconds < 900 AND span_seconds = 0
       AND at >= COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval)
       AND at < COALESCE(%(until)s::timestamptz, statement_timestamp() - %(until_ago)s::interval, 'infinity')
    UNION ALL
    SELECT at, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes,
           CASE WHEN %(times)s THEN wait_buckets END AS wait_buckets, CASE WHEN %(times)s THEN run_buckets END AS run_buckets,
           CASE WHEN %(times)s THEN wait_counts END AS wait_counts, CASE WHEN %(times)s THEN run_counts END AS run_counts
      FROM jobqueue_stat
     WHERE span_seconds > 0
       AND at >= COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval) - interval '15 minutes'
       AND at < COALESCE(%(until)s::timestamptz, statement_timestamp() - %(until_ago)s::interval, 'infinity')
       AND at + make_interval(secs => span_seconds)
           > COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval)),
chosen AS MATERIALIZED (
    SELECT dense_rank() OVER (ORDER BY moment, queue_key, type_key, outcome)::int AS key, *
      FROM (SELECT greatest(width_bucket(at, %(starts)s::timestamptz[]) - 1, 0) AS moment,
                   CASE WHEN %(by_queue)s THEN queue ELSE '' END AS queue_key,
                   CASE WHEN %(by_type)s THEN job_type ELSE '' END AS type_key, *
              FROM rows_of_both
             WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job_type)s::text IS NULL OR job_type = %(job_type)s)) AS keyed),
summed AS (
    SELECT key, moment, queue_key, type_key, outcome, sum(jobs)::bigint AS jobs, sum(dead)::bigint AS dead,
           sum(wait_seconds) AS wait_seconds, sum(run_seconds) AS run_seconds, sum(cpu_seconds) AS cpu_seconds,
           max(peak_memory_bytes) AS peak_memory_bytes,
           extract(epoch FROM
               least(COALESCE(%(until)s::timestamptz, statement_timestamp() - %(until_ago)s::interval), statement_timestamp())
               - least(COALESCE(%(since)s::timestamptz, statement_timestamp() - %(window)s::interval), min(min(at)) OVER ()))::float8
           AS covered_seconds
      FROM chosen GROUP BY key, moment, queue_key, type_key, outcome),
paired AS MATERIALIZED (
    SELECT key, wait_bucket, run_bucket, count(*) AS entries
      FROM (SELECT key, unnest(wait_buckets) AS wait_bucket, unnest(run_buckets) AS run_bucket FROM chosen) AS single
     GROUP BY key, wait_bucket, run_bucket),
entered AS (
    SELECT key, 0 AS kind, wait_bucket AS number, entries FROM paired WHERE wait_bucket IS NOT NULL
    UNION ALL
    SELECT key, 1, run_bucket, entries FROM paired WHERE run_bucket IS NOT NULL
    UNION ALL
    SELECT key, 0, generate_subscripts(wait_counts, 1) - 1, unnest(wait_counts) FROM chosen
    UNION ALL
    SELECT key, 1, generate_subscripts(run_counts, 1) - 1, unnest(run_counts) FROM chosen),
tallied AS (
    SELECT key, kind, least(63, greatest(0, number)) AS bucket, sum(entries)::bigint AS entries
      FROM entered GROUP BY key, kind, bucket HAVING sum(entries) > 0),
gapped AS (
    SELECT *, lag(bucket, 1, -1) OVER (PARTITION BY key, kind ORDER BY bucket) AS bucket_before FROM tallied),
counted AS (
    SELECT key, array_agg(CASE WHEN place = bucket THEN entries ELSE 0 END ORDER BY place) FILTER (WHERE kind = 0) AS wait_counts,
           array_agg(CASE WHEN place = bucket THEN entries ELSE 0 END ORDER BY place) FILTER (WHERE kind = 1) AS run_counts
      FROM gapped CROSS JOIN LATERAL generate_series(bucket_before + 1, bucket) AS place
     GROUP BY key)
SELECT moment, queue_key, type_key, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds, peak_memory_bytes, covered_seconds,
       wait_counts, run_counts
  FROM summed LEFT JOIN counted USING (key)
 ORDER BY moment, queue_key, type_key, outcome
