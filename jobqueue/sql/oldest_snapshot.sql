-- Tell who keeps vacuum from removing dead rows for the longest: a session, a prepared transaction or a replication slot.
-- Params:  none
-- Returns: one row or none (kind, name, pid int, user, state, xids bigint, seconds float8): transactions begun since and age
-- Locks:   none
-- Index:   none (the server's own views)
-- Sessions of other databases hold back none of our tables, and vacuum holds back nothing. Of a slot only the transactions
-- are known, and since PostgreSQL 17 how long nobody has used it. Our own statement counts only in an older transaction.
-- Without pg_read_all_stats the sessions of other users have neither times nor states here: seconds is NULL then.
WITH holder AS (
    SELECT 'session' AS kind, session.application_name AS name, session.pid, session.usename::text AS "user",
           session.state, session.xact_start AS since,
           greatest(age(session.backend_xmin), age(session.backend_xid)) AS xids
      FROM pg_stat_activity AS session
     WHERE (session.backend_xmin IS NOT NULL OR session.backend_xid IS NOT NULL)
       AND (session.datname = current_database() OR session.backend_type = 'walsender')
       AND (session.pid <> pg_backend_pid() OR session.xact_start < statement_timestamp() - interval '1 second')
       AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS vacuum WHERE vacuum.pid = session.pid)
    UNION ALL
    SELECT 'prepared', prepared.gid, NULL, prepared.owner::text, '', prepared.prepared, age(prepared.transaction)
      FROM pg_prepared_xacts AS prepared WHERE prepared.database = current_database()
    UNION ALL
    SELECT 'slot', slot.slot_name::text, slot.active_pid, '', CASE WHEN slot.active THEN 'active' ELSE 'inactive' END,
           (to_jsonb(slot) ->> 'inactive_since')::timestamptz, age(slot.xmin)
      FROM pg_replication_slots AS slot WHERE slot.xmin IS NOT NULL)
SELECT kind, name, pid, "user", COALESCE(state, '') AS state, xids::bigint,
       extract(epoch FROM statement_timestamp() - COALESCE(since, min(since) OVER ()))::float8 AS seconds
  FROM holder
 ORDER BY xids DESC, since
 LIMIT 1
