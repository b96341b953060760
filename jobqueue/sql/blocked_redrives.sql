-- Name, for dead letters that a redrive left out, the job that holds or outranks their key.
-- Params:  ids bigint[]
-- Returns: (id, blocker) of each blocked one
-- Locks:   none
-- Index:   primary key, jobqueue_job_dead_key, jobqueue_job_dedupe
SELECT job.id, COALESCE(
           (SELECT other.id FROM jobqueue_job AS other
             WHERE other.dedupe_key = job.dedupe_key AND other.status IN (1, 2, 5, 6) /* active */),
           (SELECT max(newer.id) FROM jobqueue_job AS newer
             WHERE newer.dedupe_key = job.dedupe_key AND newer.status = 4 /* DEAD */ AND newer.id > job.id)) AS blocker
  FROM jobqueue_job AS job
 WHERE job.id = ANY (%(ids)s::bigint[]) AND job.status + 0 = 4 /* DEAD */ AND job.dedupe_key IS NOT NULL
