"""Hints that do not come as they were sent: several times, late, or among others that mean nothing.

HintChanger stands between a worker's listener (by LISTEN_DSN) and the server. It reads the server's messages, passes
all of them on in order, and changes only notifications. The listener's echo to itself, by which it finds out whether
LISTEN works at all, is left alone.
"""

import asyncio
import contextlib
import itertools
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from jobqueue.listener import ECHO_PREFIX
from jobqueue.managers.waking import CHANNEL

HEAD = struct.Struct("!cI")  # a message's type, and its length without the type
NOTIFICATION, SENDER_BYTES = b"A", 4


class HintChanger:
    """Listens on a port of its own; runs in a thread of its own."""

    def __init__(self, host: str, port: int, *, times: int = 1, delay: float = 0.0) -> None:
        self._target, self._times, self._delay = (host, port), times, delay
        self.changed = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hint-changer", daemon=True)
        self._thread.start()
        assert self._serving.wait(10)

    def close(self) -> None:
        """End, and cut what goes through."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._pair, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._serving.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._loop.run_until_complete(self._cut_all())
            self._loop.close()

    @staticmethod
    async def _cut_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets now

    async def _pair(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(self._pass_on(near, to_far), self._change(far, to_near))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for writer in (to_near, to_far):
                with contextlib.suppress(Exception):
                    writer.transport.abort()

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        raise asyncio.IncompleteReadError(b"", None)

    async def _change(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(HEAD.size)
            kind, length = HEAD.unpack(head)
            body = await reader.readexactly(length - 4)
            if kind != NOTIFICATION or self._payload(body).startswith(ECHO_PREFIX):
                writer.write(head + body)
                continue
            self.changed += 1
            # Whole messages only, so a late one may stand between any two others.
            self._loop.call_later(self._delay, writer.write, (head + body) * self._times)

    @staticmethod
    def _payload(body: bytes) -> str:
        _channel, payload, _rest = body[SENDER_BYTES:].split(b"\0", 2)
        return payload.decode()


GARBAGE = ["x" * 7900, "no such queue", "é;--", "!", "!cancel", "!cancel ", "!cancel someone-else", "!echo ", "a.b"]
GARBAGE += [
    "!echo someone-else",
    "\t\n",
    "default'; DROP TABLE jobqueue_job; --",
    '{"queue": "default"}',
    "' || chr(0)",
]


@contextmanager
def garbage_on_the_channel(conninfo: str, *, pause: float = 0.01) -> Iterator[None]:
    """Have another connection send what means nothing, and names of queues that do not exist, a hundred a second."""
    ended = threading.Event()

    def send() -> None:
        with psycopg.connect(conninfo, autocommit=True, application_name="garbage") as raw:
            for number, payload in enumerate(itertools.cycle(GARBAGE)):
                if ended.wait(pause):
                    return
                for text in (payload, f"queue-{number}"):
                    raw.execute("SELECT pg_notify(%s, %s)", [CHANNEL, text])

    thread = threading.Thread(target=send, name="garbage")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
