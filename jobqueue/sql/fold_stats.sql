-- Fold one batch of statistics rows of one span into rows of a longer one. Sums read both, so no total ever changes.
-- Params:  from_span int (seconds; 0: as inserted), to_span int, age interval (leave younger rows), take int
-- Returns: one row (rows bigint folded)
-- Locks:   those rows, stepping over locked ones, and the long rows they go into
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket, primary key
-- The literal 900 (quarter-hours are never folded) keeps any plan on the small partial index; the array keeps the deletion
-- on the primary key, where a generic plan, which knows no limit, would read the whole table.
-- Longer names than enqueue takes are cut, which only rows written by hand have: the index of the buckets has its limit.
-- Times: settles list a bucket a job, folded rows have a count a bucket, as far as the highest that has any. Waits and runs
-- are counted as pairs first, which halves the work. Rows of releases older than the buckets have neither.
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_stat
     WHERE span_seconds < 900 AND span_seconds = %(from_span)s::smallint AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM jobqueue_stat AS stat WHERE stat.id = ANY (ARRAY(SELECT id FROM old)) RETURNING stat.*),
keyed AS (
    SELECT dense_rank() OVER (ORDER BY queue_name, type_name, outcome, bucket)::int AS key, *
      FROM (SELECT to_timestamp(floor(extract(epoch FROM at) / %(to_span)s::int) * %(to_span)s::int) AS bucket,
                   left(queue, 63) AS queue_name, left(job_type, 63) AS type_name, *
              FROM gone) AS named),
summed AS (
    SELECT key, bucket, queue_name, type_name, outcome, sum(jobs) AS jobs, sum(dead) AS dead, sum(wait_seconds) AS wait_seconds,
           sum(run_seconds) AS run_seconds, sum(cpu_seconds) AS cpu_seconds, max(peak_memory_bytes) AS peak_memory_bytes
      FROM keyed GROUP BY key, bucket, queue_name, type_name, outcome),
paired AS (
    SELECT key, wait_bucket, run_bucket, count(*) AS entries
      FROM (SELECT key, unnest(wait_buckets) AS wait_bucket, unnest(run_buckets) AS run_bucket FROM keyed) AS single
     GROUP BY key, wait_bucket, run_bucket),
entered AS (
    SELECT key, 0 AS kind, wait_bucket AS number, entries FROM paired WHERE wait_bucket IS NOT NULL
    UNION ALL
    SELECT key, 1, run_bucket, entries FROM paired WHERE run_bucket IS NOT NULL
    UNION ALL
    SELECT key, 0, generate_subscripts(wait_counts, 1) - 1, unnest(wait_counts) FROM keyed
    UNION ALL
    SELECT key, 1, generate_subscripts(run_counts, 1) - 1, unnest(run_counts) FROM keyed),
tallied AS (
    SELECT key, kind, least(63, greatest(0, number)) AS place, sum(entries)::bigint AS entries
      FROM entered GROUP BY key, kind, place HAVING sum(entries) > 0),
gapped AS (
    SELECT *, lag(place, 1, -1) OVER (PARTITION BY key, kind ORDER BY place) AS place_before FROM tallied),
counted AS (
    SELECT key, array_agg(CASE WHEN each = place THEN entries ELSE 0 END ORDER BY each) FILTER (WHERE kind = 0) AS wait_counts,
           array_agg(CASE WHEN each = place THEN entries ELSE 0 END ORDER BY each) FILTER (WHERE kind = 1) AS run_counts
      FROM gapped CROSS JOIN LATERAL generate_series(place_before + 1, place) AS each
     GROUP BY key),
folded AS (
    INSERT INTO jobqueue_stat AS stat (at, span_seconds, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds,
                                       cpu_seconds, peak_memory_bytes, wait_counts, run_counts)
    SELECT bucket, %(to_span)s::smallint, queue_name, type_name, outcome, jobs, dead, wait_seconds, run_seconds, cpu_seconds,
           peak_memory_bytes, wait_counts, run_counts
      FROM summed LEFT JOIN counted USING (key)
     ORDER BY bucket, queue_name, type_name, outcome
    ON CONFLICT (at, span_seconds, queue, job_type, outcome) WHERE span_seconds > 0 DO UPDATE
       SET jobs = stat.jobs + EXCLUDED.jobs, dead = stat.dead + EXCLUDED.dead,
           wait_seconds = stat.wait_seconds + EXCLUDED.wait_seconds, run_seconds = stat.run_seconds + EXCLUDED.run_seconds,
           cpu_seconds = stat.cpu_seconds + EXCLUDED.cpu_seconds,
           peak_memory_bytes = greatest(stat.peak_memory_bytes, EXCLUDED.peak_memory_bytes),
           wait_counts = NULLIF(ARRAY(SELECT COALESCE(had, 0) + COALESCE(more, 0)
                                        FROM unnest(stat.wait_counts, EXCLUDED.wait_counts) WITH ORDINALITY AS pair (had, more, place)
                                       ORDER BY place), '{}'),
           run_counts = NULLIF(ARRAY(SELECT COALESCE(had, 0) + COALESCE(more, 0)
                                       FROM unnest(stat.run_counts, EXCLUDED.run_counts) WITH ORDINALITY AS pair (had, more, place)
                                      ORDER BY place), '{}'))
SELECT count(*) AS rows FROM gone
