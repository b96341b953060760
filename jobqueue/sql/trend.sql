-- Sum the statistics by period for the charts of the overview: by outcome, and the waits by bucket.
-- Params:  starts timestamptz[] (of the periods, ascending; the last one ends now), times bool (whether the waits are wanted)
-- Returns: (period int from 0, outcome, jobs, dead, NULL, NULL) of each period and outcome, and
--          (period, NULL, NULL, NULL, bucket int, waits) of each period and bucket
-- Locks:   none
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket
-- As read_statistics.sql has it, without what no chart shows: a week is some ten thousand rows. Of folded rows that begin before
-- the first period the first condition is for the index, the last one for the truth; they count in the first period.
WITH lately AS MATERIALIZED (
    SELECT greatest(width_bucket(at, %(starts)s::timestamptz[]) - 1, 0) AS period, outcome, jobs, dead,
           CASE WHEN %(times)s THEN wait_buckets END AS wait_buckets, NULL::bigint[] AS wait_counts
      FROM jobqueue_stat
     WHERE span_seconds < 900 AND span_seconds = 0 AND at >= (%(starts)s::timestamptz[])[1] AND at <= statement_timestamp()
    UNION ALL
    SELECT greatest(width_bucket(at, %(starts)s::timestamptz[]) - 1, 0), outcome, jobs, dead,
           NULL, CASE WHEN %(times)s THEN wait_counts END
      FROM jobqueue_stat
     WHERE span_seconds > 0 AND at >= (%(starts)s::timestamptz[])[1] - interval '15 minutes' AND at <= statement_timestamp()
       AND at + make_interval(secs => span_seconds) > (%(starts)s::timestamptz[])[1]),
timed AS (
    SELECT period, (place.number - 1)::int AS bucket, place.waits
      FROM lately CROSS JOIN LATERAL unnest(wait_counts) WITH ORDINALITY AS place (waits, number)
     WHERE place.waits > 0
    UNION ALL
    SELECT period, unnest(wait_buckets)::int, 1 FROM lately)
SELECT period, outcome, sum(jobs)::bigint AS jobs, sum(dead)::bigint AS dead, NULL::int AS bucket, NULL::bigint AS waits
  FROM lately GROUP BY period, outcome
UNION ALL
SELECT period, NULL, NULL, NULL, bucket, sum(waits)::bigint FROM timed GROUP BY period, bucket
