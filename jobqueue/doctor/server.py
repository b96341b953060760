"""The server: its version, whether it is the primary, whether the tables are of this version."""

from __future__ import annotations

import time
from typing import Final

from django.core import checks as system_checks

from jobqueue.ops.health import missing_migrations, newer_migrations

from .findings import Finding, Told
from .looking import Look, finding

OLDEST: Final = 150_000
CLOCK_SECONDS: Final = 1.0
LOOKS: Final = 3

ENGINE: Final = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()
"""
TIME: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"


def engine(look: Look) -> Told:
    """Look at version and role."""
    number, version, standby = look.ask(ENGINE)[0]
    found = []
    if number < OLDEST:
        found.append(finding("engine_old", f"PostgreSQL {version}"))
    if standby:
        found.append(finding("engine_standby", "pg_is_in_recovery() says so"))
    return Told(f"PostgreSQL {version}, {'standby' if standby else 'primary'}", found)


def migrations(look: Look) -> Told:
    """Look whether this version's migrations are applied, and whether there are others."""
    missing, newer = look.read(
        lambda: (missing_migrations(look.manager.run_sql), newer_migrations(look.manager.run_sql))
    )
    look.all_migrated = not missing
    found = [finding("migrations_missing", f"not applied: {', '.join(missing)}")] if missing else []
    if newer:
        found.append(finding("migrations_newer", f"unknown to this code: {', '.join(newer)}"))
    return Told("not all applied" if missing else "all applied", found)


def settings(look: Look) -> Told:
    """Run the system checks of jobqueue, those that import the handlers as well."""
    messages = system_checks.run_checks(tags=["jobqueue", "jobqueue_handlers"])
    spoken = [each for each in messages if not each.is_silenced() and each.level >= system_checks.WARNING]
    return Told(f"{len(spoken)} of the system checks speak", [_of_message(each) for each in spoken])


def _of_message(message: system_checks.CheckMessage) -> Finding:
    code = "setting_error" if message.level >= system_checks.ERROR else "setting_warning"
    hint = f" ({message.hint})" if message.hint else ""
    return finding(code, f"{message.msg}{hint}", message.id or "")


def clocks(look: Look) -> Told:
    """Compare this host's clock with the server's, by the quickest of a few answers, and look at what workers told."""
    skews = []
    for _ in range(LOOKS):
        asked = time.time()
        server = look.ask(TIME)[0][0]
        answered = time.time()
        skews.append((answered - asked, (asked + answered) / 2 - server))
    skew = min(skews)[1]
    found = [finding("clock_host", f"{skew:+.1f} s from the server's")] if abs(skew) >= CLOCK_SECONDS else []
    for worker in look.figures("workers").workers:
        if worker.alive and worker.clock_skew_sec is not None and abs(worker.clock_skew_sec) >= CLOCK_SECONDS:
            text = f"{worker.clock_skew_sec:+.1f} s from the server's, on {worker.host}"
            found.append(finding("clock_worker", text, worker.worker_id))
    return Told(f"this host is {skew:+.3f} s from the server", found)
