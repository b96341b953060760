"""Every kind of finding: how bad it is, what it means, what to do. docs/doctor.md has the same table."""

from __future__ import annotations

from typing import Final

from .findings import Kind

CATALOGUE: Final[dict[str, Kind]] = {
    # -- the server ------------------------------------------------------------------------------------------------
    "engine_old": Kind("error", "The server is older than PostgreSQL 15: statements fail.", "Upgrade the server."),
    "engine_standby": Kind(
        "error",
        "This is a read-only standby: nothing can be enqueued or claimed here.",
        "Point the alias at the primary, for example by `target_session_attrs=read-write`.",
    ),
    "migrations_missing": Kind(
        "error", "Workers of this version do not start on these tables.", "Run `manage.py migrate`."
    ),
    "migrations_newer": Kind(
        "notice",
        "The tables are of a newer version than this code. Code of one version back works with them.",
        "Finish the deploy here, or go back with `manage.py migrate jobqueue NAME` by the newer code.",
    ),
    "setting_error": Kind("error", "A system check fails: workers do not start.", "Do what the text says."),
    "setting_warning": Kind("warning", "A system check warns.", "Do what the text says, or silence the check."),
    "clock_host": Kind(
        "warning",
        "This host's clock is not the server's. Leases do not depend on it; times that the project computes do.",
        "Have NTP or chrony run on both.",
    ),
    "clock_worker": Kind(
        "warning",
        "A worker's host has another time than the server; its logs are off by as much.",
        "Have NTP or chrony run there.",
    ),
    "autovacuum_off": Kind(
        "error",
        "Nobody removes dead rows: claims become slower with each job, without end.",
        "Set `autovacuum` and `track_counts` to `on`, or reset `autovacuum_enabled` of the table.",
    ),
    "storage_parameters": Kind(
        "warning",
        "The table has lost what the migrations set: updates cost more, or vacuum comes late.",
        "Set it again as the text says; if it was on purpose, leave it.",
    ),
    "dead_rows": Kind(
        "warning",
        "More dead rows than vacuum should leave: it does not keep up, or something holds it back.",
        "See the finding on who holds the horizon; else `VACUUM` the table and raise `autovacuum_max_workers`.",
    ),
    "table_bloat": Kind(
        "warning",
        "The table is several times as large as its rows need, after a flood or while vacuum was held back.",
        "The room is used again. To give it back: `pg_repack`, or `VACUUM FULL` while workers and web are stopped.",
    ),
    "index_bloat": Kind(
        "warning",
        "An index is many times as large as its entries need: claims read empty pages.",
        "`REINDEX INDEX CONCURRENTLY` it.",
    ),
    "index_invalid": Kind(
        "error",
        "A build of this index was cut off: it is written to and never read.",
        "`DROP INDEX CONCURRENTLY` it where it is a leftover (`_ccnew`), else `REINDEX INDEX CONCURRENTLY` it.",
    ),
    "index_missing": Kind(
        "error",
        "A statement that relies on this index reads the whole table.",
        "Find out who dropped it; make it anew, `CONCURRENTLY`, as `manage.py sqlmigrate` shows it.",
    ),
    "horizon_session": Kind(
        "warning",
        "A session keeps vacuum from removing dead rows: all tables of this database grow, and claims become slower.",
        "Ask who it belongs to; end it with `SELECT pg_terminate_backend(PID)`.",
    ),
    "horizon_prepared": Kind(
        "warning",
        "A transaction that was prepared and never finished holds its locks and the horizon, over restarts, too.",
        "`COMMIT PREPARED` or `ROLLBACK PREPARED` it, as its coordinator knows.",
    ),
    "horizon_slot": Kind(
        "warning",
        "A replication slot that nobody uses holds the horizon, and may fill the disk with WAL.",
        "Bring its standby back, or `SELECT pg_drop_replication_slot(NAME)`.",
    ),
    # -- the way to it ---------------------------------------------------------------------------------------------
    "pooler_cursors": Kind(
        "warning",
        "A pooler lends one server process to many clients; cursors of Django's `iterator()` break behind it.",
        "Set `DISABLE_SERVER_SIDE_CURSORS` to `True` for this alias.",
    ),
    "listen_pooled": Kind(
        "warning",
        "LISTEN leads to a pooler in transaction mode, which no notification passes: workers poll.",
        "Set `LISTEN_DSN` to the server itself, or `NOTIFY` to `False` if polling is enough.",
    ),
    "listen_deaf": Kind(
        "warning",
        "A notification that was sent did not come back: workers poll, so jobs start up to `POLL_SECONDS` later.",
        "Have `LISTEN_DSN` lead to the same database of the same primary.",
    ),
    "connections_short": Kind(
        "warning",
        "With every slot in use the workers need more connections than the server has left: some will be refused.",
        "Fewer slots or workers, a higher `max_connections`, or PgBouncer ([worker.md](worker.md#behind-a-pooler)).",
    ),
    "privilege_missing": Kind(
        "error",
        "This role may not do what web or workers do: they fail at that statement.",
        "As the owner: `GRANT SELECT, INSERT, UPDATE, DELETE` on the table to the role, `USAGE` on "
        "`jobqueue_job_id_seq`.",
    ),
    "sees_less": Kind(
        "notice",
        "Of other users' sessions this role sees no times and no states: who holds the horizon may stay unknown.",
        "`GRANT pg_read_all_stats` to the role.",
    ),
    # -- work ------------------------------------------------------------------------------------------------------
    "no_worker": Kind("error", "No worker is alive: nothing runs.", "Start `manage.py runworker`, see its log."),
    "queue_unserved": Kind(
        "error", "Jobs of this queue are due and no living worker takes them.", "Start one with `--queues`."
    ),
    "queue_paused": Kind(
        "notice", "Somebody paused it: its jobs wait.", "`manage.py jobqueue_queue resume NAME` when all is well again."
    ),
    "type_unknown": Kind(
        "warning",
        "No handler here has this type. Workers give such jobs back, and bury them after `UNKNOWN_TYPE_DEAD_SECONDS`.",
        "Deploy the handler, give the new one an alias of the old name, or cancel the jobs.",
    ),
    "worker_silent": Kind(
        "warning",
        "A worker was not heard of: it was killed, its host is gone, or it has no database. Its jobs come back.",
        "Look for it on its host. Its row goes after ten leases.",
    ),
    "worker_hangs": Kind(
        "error",
        "A worker lives and does not claim: it waits for a lock or for an answer.",
        "Look at its log; restart it if it lasts.",
    ),
    "worker_deaf": Kind(
        "warning", "A worker hears no notifications: it polls.", "See `listen_pooled`; look at its log."
    ),
    "worker_version": Kind(
        "warning", "A worker runs another version of jobqueue than this process.", "Finish the deploy; restart it."
    ),
    "worker_release": Kind(
        "notice", "A worker runs another release of the project than this process.", "Finish the deploy; restart it."
    ),
    "jobs_stuck": Kind(
        "error",
        "Running jobs have lost their lease and nobody took them back, or run past their deadline.",
        "Have a worker with maintenance run; else give them back in the admin, under Stuck jobs.",
    ),
    "dead_letters": Kind(
        "warning",
        "Jobs have failed for good, and nobody has taken their groups in hand.",
        "Read the groups under Dead letters; mend the cause, then `manage.py jobqueue_redrive`.",
    ),
    # -- growth ----------------------------------------------------------------------------------------------------
    "retention_off": Kind(
        "warning", "Finished jobs are kept for ever: the table grows without end.", "Set `RETENTION_DONE_SECONDS`."
    ),
    "prune_behind": Kind(
        "warning",
        "Finished jobs past their retention are still here: no worker prunes, or rows of the project refer to them.",
        "Run a worker with maintenance, or `manage.py jobqueue_prune --dry-run`, which counts what is kept.",
    ),
}
