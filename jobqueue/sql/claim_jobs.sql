-- Claim due jobs of several queues for one worker, best first, stepping over rows locked elsewhere.
-- Params:  queues text[], takes int[], priorities smallint[], run_afters timestamptz[], ids bigint[], tops smallint[],
--          untils timestamptz[], total int, worker_id text, lease interval
-- Returns: the rows claimed (never more than total), in no order
-- Locks:   those rows, FOR NO KEY UPDATE (plain FOR UPDATE silently skips rows that a user's foreign key holds)
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- By an array of ids: a plan for any parameters that was made while the table was small would read all of it later.
-- Index:   jobqueue_job_claim; jobqueue_queue has a row a queue that was ever paused
-- A row of the arrays is one range of the index: of that queue, behind (priority, run_after, id), up to (top, until).
-- One range a queue from the very start is the normal claim; floors (docs/lease.md) give several. The CTE is MATERIALIZED
-- because "id IN (SELECT ... LIMIT n)" may run again for each outer row and then claims more than n.
-- Rows that somebody wrote by hand may hold anything: no number and no time in one of them may fail the claim of all.
-- The spans of paused queues go first, before any row is looked at: joined later, their rows would be locked for nothing.
-- A pause of all queues ('*') leaves out the package's own, jobqueue: alarms and notices go on.
WITH span AS MATERIALIZED (
    SELECT *
      FROM unnest(%(queues)s::text[], %(takes)s::int[], %(priorities)s::smallint[], %(run_afters)s::timestamptz[],
                  %(ids)s::bigint[], %(tops)s::smallint[], %(untils)s::timestamptz[])
           AS asked (queue, take, priority, run_after, id, top, until)
     WHERE NOT EXISTS (
           SELECT FROM jobqueue_queue AS paused
            WHERE (paused.name = asked.queue OR (paused.name = '*' AND asked.queue <> 'jobqueue'))
              AND paused.paused_at IS NOT NULL
              AND (paused.resumes_at IS NULL OR paused.resumes_at > statement_timestamp()))),
picked AS MATERIALIZED (
    SELECT due.id
      FROM span
     CROSS JOIN LATERAL (
           SELECT job.id
             FROM jobqueue_job AS job
            WHERE job.status = 1 /* PENDING */
              AND job.queue = span.queue
              AND (job.priority, job.run_after, job.id) > (span.priority, span.run_after, span.id)
              AND (job.priority, job.run_after) <= (span.top, span.until)
            ORDER BY job.priority, job.run_after, job.id
            LIMIT span.take
              FOR NO KEY UPDATE SKIP LOCKED) AS due
     LIMIT %(total)s)
UPDATE jobqueue_job AS job
   SET status = 2 /* RUNNING */, worker_id = %(worker_id)s, lease_epoch = mod(job.lease_epoch, 9223372036854775807) + 1,
       attempts = least(job.attempts, 32766) + 1,
       lease_until = statement_timestamp() + %(lease)s::interval, claimed_at = statement_timestamp(),
       run_started_at = NULL, updated_at = statement_timestamp()
 WHERE job.id = ANY (ARRAY(SELECT id FROM picked)) AND job.status + 0 = 1 /* PENDING */
RETURNING job.id, job.lease_epoch, job.job_type, job.queue, job.priority,
          (extract(epoch FROM least(greatest(job.run_after, 'epoch'), '9999-12-30Z')) * 1000000)::bigint AS run_after_us,
          job.attempts, job.max_attempts,
          job.interruptions, job.owner, job.payload_bytes, job.payload::text,
          CASE WHEN job.unknown_since IS NOT NULL
               THEN extract(epoch FROM statement_timestamp() - least(greatest(job.unknown_since, 'epoch'), '9999-12-30Z'))::float8
           END AS unknown_seconds,
          job.outcome AS last_outcome, job.trace_context, job.task_backend
