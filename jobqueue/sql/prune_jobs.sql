-- Delete one batch of finished jobs of one status that are older than an age, with their attempts.
-- Params:  status smallint, age interval, take int, keep bigint[] (ids that a foreign key of the project holds)
-- Returns: (id) of each deleted job
-- Locks:   those rows, stepping over locked ones
-- Index:   jobqueue_job_finished
WITH old AS MATERIALIZED (
    SELECT id FROM jobqueue_job
     WHERE status IN (3 /* DONE */, 4 /* DEAD */, 7 /* CANCELLED */) AND status = %(status)s::smallint
       AND finished_at < statement_timestamp() - %(age)s::interval
       AND NOT (id = ANY (%(keep)s::bigint[]))
     ORDER BY finished_at, id
     LIMIT %(take)s
       FOR UPDATE SKIP LOCKED),
attempts AS (
    DELETE FROM jobqueue_attempt AS attempt USING old WHERE attempt.job_id = old.id)
DELETE FROM jobqueue_job AS job
 USING old
 WHERE job.id = old.id AND job.status IN (3 /* DONE */, 4 /* DEAD */, 7 /* CANCELLED */)
RETURNING job.id
