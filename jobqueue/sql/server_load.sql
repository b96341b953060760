-- Tell how many connections are ours, by role, how many the server has and may have, and how full its queue of notifications is.
-- Params:  none
-- Returns: (role text, connections) of each role, and for role '' all of the server; each with connections_max int,
--          sees_all bool (whether sessions of other users are seen in full), notify_queue_usage float8 (0 to 1)
-- Locks:   none
-- Index:   none (the server's own views)
-- Without pg_read_all_stats the kind of other users' sessions is not told: one with a database is then taken for a client.
SELECT COALESCE(ours.role, '') AS role, count(*) AS connections, current_setting('max_connections')::int AS connections_max,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all, pg_notification_queue_usage() AS notify_queue_usage
  FROM pg_stat_activity AS session
       CROSS JOIN LATERAL (SELECT CASE WHEN session.application_name LIKE 'jobqueue %%' AND session.datname = current_database()
                                       THEN split_part(session.application_name, ' ', 2) END AS role) AS ours
 WHERE COALESCE(session.backend_type, 'client backend') = 'client backend' AND session.datid IS NOT NULL
 GROUP BY GROUPING SETS ((ours.role), ())
HAVING grouping(ours.role) = 1 OR ours.role IS NOT NULL
