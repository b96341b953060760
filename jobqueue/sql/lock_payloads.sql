-- Lock dead letters, and read the payloads that are to be edited.
-- Params:  ids bigint[]
-- Returns: (id, job_type, payload as text) of each that is dead, in id order
-- Locks:   those rows, in id order, under the caller's lock_timeout
-- By id, status + 0: a planner that believes a status rare would walk that status's whole partial index instead.
-- Index:   primary key
SELECT id, job_type, payload::text
  FROM jobqueue_job
 WHERE id = ANY (%(ids)s::bigint[]) AND status + 0 = 4 /* DEAD */
 ORDER BY id
   FOR NO KEY UPDATE
