-- Tell what stands between a waiting job and a worker: pauses, workers, and the jobs that are claimed before it.
-- Params:  id bigint, workers int (the most to tell of), cap int (of the jobs ahead)
-- Returns: one row (now, pauses jsonb: [name, paused_by, reason, resumes_at as epoch] of each that holds this job,
--          workers jsonb: [queues, slots, busy, stopping, seconds since the heartbeat], ahead int), none for no such job
-- Locks:   none
-- Index:   primary key, jobqueue_job_claim
-- The conditions on a pause and the order of the jobs are those of claim_jobs; a test compares the texts.
SELECT statement_timestamp(),
       (SELECT jsonb_agg(jsonb_build_array(paused.name, paused.paused_by, paused.reason,
                                           extract(epoch FROM paused.resumes_at)::float8) ORDER BY paused.name DESC)
          FROM jobqueue_queue AS paused
         WHERE (paused.name = job.queue OR (paused.name = '*' AND job.queue <> 'jobqueue'))
           AND paused.paused_at IS NOT NULL
           AND (paused.resumes_at IS NULL OR paused.resumes_at > statement_timestamp())),
       (SELECT jsonb_agg(jsonb_build_array(worker.queues, worker.slots, worker.busy, worker.stopping,
                                           extract(epoch FROM statement_timestamp() - worker.heartbeat_at)::float8))
          FROM (SELECT * FROM jobqueue_worker ORDER BY heartbeat_at DESC LIMIT %(workers)s) AS worker),
       (SELECT count(*)
          FROM (SELECT FROM jobqueue_job AS other
                 WHERE other.status = 1 /* PENDING */
                   AND other.queue = job.queue
                   AND (other.priority, other.run_after, other.id) < (job.priority, job.run_after, job.id)
                 ORDER BY other.priority, other.run_after, other.id
                 LIMIT %(cap)s) AS ahead)
  FROM jobqueue_job AS job
 WHERE job.id = %(id)s
