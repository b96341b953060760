-- Delete one batch of finished jobs of one status that are older than an age, with their attempts.
-- Params:  status smallint, age interval, take int, keep bigint[] (ids that a foreign key of the project holds),
--          after_at timestamptz, after_id bigint (where to go on: rows up to this place were seen before)
-- Returns: (id) of each deleted job
-- Locks:   those rows, stepping over locked ones
-- Index:   jobqueue_job_finished, jobqueue_attempt_run, primary key
-- The arrays keep the deletions on their indexes: a generic plan, which knows no limit, would read all attempts.
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE status IN (3 /* DONE */, 4 /* DEAD */, 7 /* CANCELLED */) AND status = %(status)s::smallint
       AND finished_at < statement_timestamp() - %(age)s::interval
       AND (finished_at, id) > (%(after_at)s::timestamptz, %(after_id)s::bigint)
       AND NOT (id = ANY (%(keep)s::bigint[]))
     ORDER BY finished_at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
attempts AS (
    DELETE FROM jobqueue_attempt WHERE job_id = ANY (ARRAY(SELECT id FROM old)))
DELETE FROM jobqueue_job AS job
 WHERE job.id = ANY (ARRAY(SELECT id FROM old)) AND job.status + 0 IN (3 /* DONE */, 4 /* DEAD */, 7 /* CANCELLED */)
RETURNING job.id
