-- Take the turn at something that is done once for all workers, if it was not done of late and nobody is at it.
-- Params:  name text, every interval
-- Returns: one row (at timestamptz, the database's time), or none: somebody else is at it, or it is too early
-- Locks:   an advisory lock until the end of the transaction, without waiting, and the row of that name
-- Index:   primary key
-- Advisory locks are the whole database's: the key has the schema and the name. The row tells when; who is at it now only
-- the lock can tell, since a row of a transaction that is still open would be waited for.
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended(concat_ws('/', 'jobqueue', current_database(), current_schema(), %(name)s::text), 0)) AS is_ours)
INSERT INTO jobqueue_tick AS tick (name)
SELECT %(name)s FROM turn WHERE turn.is_ours
ON CONFLICT (name) DO UPDATE SET at = statement_timestamp()
 WHERE tick.at <= statement_timestamp() - %(every)s::interval
RETURNING tick.at
