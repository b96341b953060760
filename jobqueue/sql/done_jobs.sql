-- Tell how many jobs were done in a window of time, by the statistics.
-- Params:  window interval
-- Returns: one row (jobs bigint)
-- Locks:   none
-- Index:   jobqueue_stat_fold, jobqueue_stat_bucket
-- Of folded rows that begin before the window the first condition is for the index, the last one for the truth. None begins
-- later than now: without that a generic plan expects a third of the table.
SELECT COALESCE(sum(jobs), 0)::bigint AS jobs
  FROM (SELECT jobs FROM jobqueue_stat
         WHERE span_seconds < 900 AND span_seconds = 0 AND at > statement_timestamp() - %(window)s::interval AND outcome = 1 /* DONE */
         UNION ALL
        SELECT jobs FROM jobqueue_stat
         WHERE span_seconds > 0 AND at > statement_timestamp() - %(window)s::interval - interval '15 minutes' AND at <= statement_timestamp()
           AND at + make_interval(secs => span_seconds) > statement_timestamp() - %(window)s::interval
           AND outcome = 1 /* DONE */) AS both_kinds
