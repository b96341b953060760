"""Services that one worker at a time may do, without a leader: whoever takes the lock of the transaction does it."""

from __future__ import annotations

from typing import Final

from .rows import Run

# By database and schema too: several installations may share a server, and a schema each a database.
TRY_LOCK: Final = """
SELECT pg_try_advisory_xact_lock(
       hashtextextended(format('%%s %%s jobqueue %%s', current_database(), current_schema(), %(service)s::text), 0))
"""


def try_lock(run: Run, service: str) -> bool:
    """Take a service's lock until the end of the current transaction. Returns False where somebody else has it."""
    return bool(run(TRY_LOCK, {"service": service})[0][0])
