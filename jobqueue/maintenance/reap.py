"""Take back jobs whose worker is lost, but not before living workers have had their chance to renew.

After an outage every lease may have run out at once while every worker is alive: a reaper waits one lease after its own
reconnect, after the server changed or restarted, and at its start where no other worker has been heard of lately.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers import moving
from jobqueue.managers.culprits import Culprits
from jobqueue.managers.sessions import Session
from jobqueue.managers.waking import CHANNEL
from jobqueue.states import Status

logger = logging.getLogger("jobqueue.maintenance")

BATCH = 200


class Reap:
    """Reaps on one session."""

    name = "reap"
    more = False

    def __init__(self, session: Session, *, worker_id: str, lease: timedelta, interval_seconds: float) -> None:
        self._session, self._worker_id, self._lease = session, worker_id, lease
        self.interval_seconds = interval_seconds
        self._not_before = 0.0
        self._connects = 0
        self._server: tuple[object, ...] = ()
        self._culprits = Culprits(
            lambda limit, skip: moving.reap(session.run, limit=limit, skip=skip),
            lambda skip: moving.first_to_move(session.run, statement=sql.FIRST_EXPIRED, skip=skip),
        )

    def run_once(self) -> dict[str, int]:
        """Reap one batch, unless it is too early after a reconnect."""
        self._session.connect()  # where the connection is gone
        self._notice_reconnect()
        if time.monotonic() < self._not_before:
            return {"reaped": 0}
        rows = self._culprits.run(BATCH)
        self.more = len(rows) == BATCH or self._culprits.more
        if rows and get_settings().NOTIFY:
            queues = {row[4] for row in rows if row[1] == Status.PENDING}
            told = {INTERNAL_QUEUE for row in rows if row[1] == Status.DEAD}  # a notice of it may be due
            self._session.run(sql.WAKE_QUEUES, {"channel": CHANNEL, "queues": sorted(queues | told)})
        for row in rows[:5]:
            logger.warning("job reclaimed: its lease ran out job_id=%s status=%s lost_by=%s lease_epoch=%s", *row[:4])
        if len(rows) > 5:
            logger.warning("jobs reclaimed: %s in all", len(rows))
        return {"reaped": len(rows)}

    def _notice_reconnect(self) -> None:
        if self._session.connects == self._connects:
            return
        first, self._connects = self._connects == 0, self._session.connects
        changed, self._server = self._server != self._session.server, self._session.server
        if first and not changed:
            return
        if first:
            seconds = self._session.run(sql.YOUNGEST_BEAT, {"worker_id": self._worker_id})[0][0]
            if seconds is not None and seconds < self._lease.total_seconds() / 3:
                return  # others renew well: what has run out is lost
        self._not_before = time.monotonic() + self._lease.total_seconds()
