-- Fold one batch of statistics rows of one span into rows of a longer one. Sums read both, so no total ever changes.
-- Params:  from_span int (seconds; 0: as inserted), to_span int, age interval (leave younger rows), take int
-- Returns: one row (rows bigint folded)
-- Locks:   those rows, stepping over locked ones, and the long rows they go into
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket, primary key
-- The literal 900 (quarter-hours are never folded) keeps any plan on the small partial index; the array keeps the deletion
-- on the primary key, where a generic plan, which knows no limit, would read the whole table.
-- Longer names than enqueue takes are cut, which only rows written by hand have: the index of the buckets has its limit.
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_stat
     WHERE span_seconds < 900 AND span_seconds = %(from_span)s::smallint AND at < statement_timestamp() - %(age)s::interval
     ORDER BY at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM jobqueue_stat AS stat WHERE stat.id = ANY (ARRAY(SELECT id FROM old)) RETURNING stat.*),
folded AS (
    INSERT INTO jobqueue_stat AS stat (at, span_seconds, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds,
                                       cpu_seconds, peak_memory_bytes)
    SELECT to_timestamp(floor(extract(epoch FROM at) / %(to_span)s::int) * %(to_span)s::int) AS bucket, %(to_span)s::smallint,
           left(queue, 63) AS queue_name, left(job_type, 63) AS type_name, outcome, sum(jobs), sum(dead), sum(wait_seconds), sum(run_seconds), sum(cpu_seconds),
           max(peak_memory_bytes)
      FROM gone GROUP BY bucket, queue_name, type_name, outcome
     ORDER BY bucket, queue_name, type_name, outcome
    ON CONFLICT (at, span_seconds, queue, job_type, outcome) WHERE span_seconds > 0 DO UPDATE
       SET jobs = stat.jobs + EXCLUDED.jobs, dead = stat.dead + EXCLUDED.dead,
           wait_seconds = stat.wait_seconds + EXCLUDED.wait_seconds, run_seconds = stat.run_seconds + EXCLUDED.run_seconds,
           cpu_seconds = stat.cpu_seconds + EXCLUDED.cpu_seconds,
           peak_memory_bytes = greatest(stat.peak_memory_bytes, EXCLUDED.peak_memory_bytes))
SELECT count(*) AS rows FROM gone
