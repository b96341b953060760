-- Change one field in the payloads of dead letters that lock_payloads has locked in this transaction.
-- Params:  ids bigint[], fresh text[] (the JSON of each one's new value; NULL: the field goes, or moves to to_path),
--          path text[], to_path text[]
-- Returns: (id, the field before as JSON text, NULL where there was none) of each
-- Locks:   those rows, which the caller holds
-- Index:   primary key
UPDATE jobqueue_job AS job
   SET payload = after.payload, payload_bytes = octet_length(after.payload::text), updated_at = statement_timestamp()
  FROM unnest(%(ids)s::bigint[], %(fresh)s::text[]) AS wanted (id, fresh)
  JOIN jobqueue_job AS before ON before.id = wanted.id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN wanted.fresh IS NOT NULL THEN jsonb_set(before.payload, %(path)s::text[], wanted.fresh::jsonb)
                   WHEN %(path)s::text[] = %(to_path)s::text[] THEN before.payload #- %(path)s::text[]
                   ELSE jsonb_set(before.payload #- %(path)s::text[], %(to_path)s::text[], before.payload #> %(path)s::text[])
              END AS payload) AS after
 WHERE job.id = before.id
RETURNING job.id, (before.payload #> %(path)s::text[])::text
