"""The way to the server: whether a pooler stands between, and whether a notification really comes through."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from django.db import connections

from jobqueue.listener import ECHO_PREFIX, ListenSession, lends_process
from jobqueue.managers.sessions import Session
from jobqueue.managers.waking import CHANNEL

from .findings import Told
from .looking import Look, finding

ROLE: Final = "jobqueue doctor"
TIMEOUT: Final = timedelta(seconds=5)
ECHO_SECONDS: Final = 2.0
NOTIFY: Final = "SELECT pg_notify(%(channel)s, %(payload)s)"


def pooler(look: Look) -> Told:
    """Find out what stands between: by the server's process, which two connections share or which changes."""
    with _session(look, Session) as one, _session(look, Session) as other:
        one.connect()
        other.connect()
        if not one.pooled:
            return Told("none: connections go straight to the server; statements are prepared as PREPARED says")
        if not lends_process(one, other):
            return Told("one that keeps a server process for each client (session mode); statements are not prepared")
    look.behind_pooler = True
    straight = connections[look.alias].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    found = [] if straight else [finding("pooler_cursors", "DISABLE_SERVER_SIDE_CURSORS is not set", look.alias)]
    return Told("one that lends server processes (transaction mode); statements are not prepared", found)


def listening(look: Look) -> Told:
    """Send a notification by the way of enqueuers, and wait for it by the way of the listener."""
    settings = look.settings
    if not settings.NOTIFY:
        return Told("NOTIFY is off: workers poll")
    way = "LISTEN_DSN" if settings.LISTEN_DSN else f"the alias {look.alias}"
    with _session(look, ListenSession) as ears, _session(look, ListenSession) as other:
        ears.connect()
        if ears.pooled and lends_process(ears, other):
            # LISTEN is not said: it would stay on a process that others use next.
            return Told(f"by {way}: a pooler", [finding("listen_pooled", f"by {way}")])
        payload = f"{ECHO_PREFIX}doctor-{secrets.token_hex(4)}"
        ears.run(f"LISTEN {CHANNEL}")
        with _session(look, Session) as mouth:
            mouth.run(NOTIFY, {"channel": CHANNEL, "payload": payload})
        if _hears(ears, payload):
            return Told(f"by {way}: a notification came through")
        return Told(f"by {way}: silence", [finding("listen_deaf", f"nothing within {ECHO_SECONDS:g} s, by {way}")])


def _hears(ears: Session, payload: str) -> bool:
    # A busy queue sends many; each of them is waited for no longer than the whole.
    return any(notice.payload == payload for notice in ears.connect().notifies(timeout=ECHO_SECONDS))


@contextmanager
def _session(look: Look, kind: type[Session]) -> Iterator[Session]:
    session = kind(look.alias, ROLE, timeout=TIMEOUT)
    try:
        yield session
    finally:
        session.close()
