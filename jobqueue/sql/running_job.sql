-- Tell how the lease of a job stands, and how long ago its worker was heard of.
-- Params:  id bigint
-- Returns: one row (now, expired boolean, seconds since the worker's heartbeat float8 or NULL: it has no row, whether it is
--          stopping, percent text, message text of the progress), none for no such job
-- Locks:   none
-- Index:   primary key of both
SELECT statement_timestamp(), job.lease_until < statement_timestamp(),
       extract(epoch FROM statement_timestamp() - worker.heartbeat_at)::float8, worker.stopping,
       left(job.progress ->> 'percent', 20), left(job.progress ->> 'message', 200)
  FROM jobqueue_job AS job
  LEFT JOIN jobqueue_worker AS worker ON worker.worker_id = job.worker_id
 WHERE job.id = %(id)s
