-- Resume one queue, or take back the pause of all ('*').
-- Params:  name text, paused_by text (only a pause of theirs; NULL: whoever's)
-- Returns: one row (name), or none where no such pause is in force
-- Locks:   that row
-- Index:   primary key
UPDATE jobqueue_queue
   SET paused_at = NULL, paused_by = '', reason = '', resumes_at = NULL
 WHERE name = %(name)s AND paused_at IS NOT NULL AND (resumes_at IS NULL OR resumes_at > statement_timestamp())
   AND (%(paused_by)s::text IS NULL OR paused_by = %(paused_by)s::text)
RETURNING name
