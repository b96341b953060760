"""What handlers really did, by the rows that they wrote through connections of their own."""

from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from .waiting import until

TABLE = """
CREATE TABLE IF NOT EXISTS probe_effect (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id bigint NOT NULL, attempt int NOT NULL,
    lease_epoch bigint NOT NULL, pid int NOT NULL, event text NOT NULL, detail text NOT NULL DEFAULT '',
    at timestamptz NOT NULL DEFAULT clock_timestamp())
"""


class Effects:
    """Reads the table of effects; empty at the start of each test."""

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        self._connection = psycopg.connect(conninfo, autocommit=True, row_factory=namedtuple_row)
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute(TABLE)
        self._connection.execute("TRUNCATE probe_effect")
        self.began_at = self._connection.execute("SELECT clock_timestamp() AS at").fetchone().at

    def all(self, event: str | None = None, *, job_id: int | None = None) -> list[Any]:
        """Return the rows (job_id, attempt, lease_epoch, pid, event, detail, at), oldest first."""
        return self._connection.execute(
            "SELECT * FROM probe_effect WHERE (%(event)s::text IS NULL OR event = %(event)s)"
            " AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s) ORDER BY id",
            {"event": event, "job_id": job_id},
        ).fetchall()

    def count(self, event: str, *, job_id: int | None = None) -> int:
        """Return how often something happened."""
        return len(self.all(event, job_id=job_id))

    def wait(self, event: str, *, times: int = 1, within: float = 15, job_id: int | None = None) -> list[Any]:
        """Wait until it has happened so often; returns the rows."""
        return until(
            lambda: rows if len(rows := self.all(event, job_id=job_id)) >= times else None,
            within=within,
            what=lambda: f"{times} effects {event!r}, there are {self.all()}",
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
