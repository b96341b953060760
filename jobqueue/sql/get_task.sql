-- Read one django.tasks task with the attempts that did not end well.
-- Params:  id bigint, task_backend text (NULL: whichever enqueued it)
-- Returns: one row, or none where there is no such job, or it is no task of that backend
-- Locks:   none
-- Index:   primary key; jobqueue_attempt_run
-- One statement for both, so that a result never shows an attempt without its end, or the end of another one.
SELECT job.id, job.task_backend, job.job_type, job.queue, job.priority, job.status, job.payload::text, job.result::text,
       job.worker_id, job.attempts, job.claimed_at, job.run_started_at, job.first_started_at, job.finished_at, job.created_at,
       (SELECT json_agg(json_build_array(attempt.number, attempt.worker_id, attempt.outcome, attempt.error_class,
                                         attempt.error_text, attempt.traceback,
                                         COALESCE(attempt.started_at, attempt.claimed_at))
                        ORDER BY attempt.lease_epoch)::text
          FROM jobqueue_attempt AS attempt
         WHERE attempt.job_id = job.id) AS attempts
  FROM jobqueue_job AS job
 WHERE job.id = %(id)s AND job.task_backend = COALESCE(%(task_backend)s, job.task_backend)
