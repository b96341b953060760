"""A TCP forwarder in front of PostgreSQL that can be shut, cut, silent or slow: as a whole, or for one role alone.

An event loop in a thread of its own serves all connections. Which connection is whose it reads from the start-up
packet: `only` selects by the beginning of application_name ("jobqueue listener"). Over TLS there are no names.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .links import Link, Way

T = TypeVar("T")


class Forwarder:
    """Listens on a port of its own, opened or not yet. Its methods are for other threads."""

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        self.links: set[Link] = set()
        self.to_come: dict[str | None, Way] = {}
        self._reserved = self._bound(0)
        self.port: int = self._reserved.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._was_open = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forwarder", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Accept connections."""
        self._was_open = True

        async def serve() -> None:
            if self._server is None:
                self._server = await self._loop.create_server(lambda: Link(self).near, sock=self._reserved)

        asyncio.run_coroutine_threadsafe(serve(), self._loop).result(10)

    def shut(self) -> None:
        """Refuse connections and cut those that exist."""
        self._do(self._shut)

    def swallow(self, silent: bool = True) -> None:
        """Keep connections open and drop what comes through them; new ones are accepted and get no answer."""
        self.blackhole() if silent else self.pass_on()

    def blackhole(self, only: str | None = None, *, to_come: bool = True) -> None:
        """Drop the bytes of these connections, both ways, with no FIN; also of new ones, unless to_come is False."""
        self._do(lambda: self._treat(only, Way(silent=True), to_come=to_come))

    def drop_answers(self, only: str | None = None) -> None:
        """Let what these connections that exist now ask come through, and drop what the server says."""
        self._do(lambda: self._treat(only, Way(answers=False), to_come=False))

    def delay(self, seconds: float, only: str | None = None) -> None:
        """Pass bytes on so much later, each way, in order; a round trip takes twice that."""
        self._do(lambda: self._treat(only, Way(seconds=seconds), to_come=True))

    def reset(self, only: str | None = None) -> None:
        """Cut the connections that exist now by RST, on both sides."""
        self._do(lambda: self._reset(only))

    def pass_on(self, only: str | None = None) -> None:
        """Treat these as usual again; those that lost bytes are cut, since nothing can make up for them."""
        self._do(lambda: self._pass_on(only))

    def heal(self) -> None:
        """Take all faults away: pass everything on, and accept connections if that was ever done."""
        self.pass_on()
        if self._was_open:
            self.open()

    def connections(self) -> list[str]:
        """Return the application names of the clients that are connected now."""
        return self._do(lambda: sorted(link.name for link in self.links if link.name is not None and link.near.is_open))

    def close(self) -> None:
        """End the thread."""
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.run_until_complete(_one_round())
        self._loop.close()
        self._reserved.close()

    def _do(self, call: Callable[[], T]) -> T:
        async def doing() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(doing(), self._loop).result(10)

    def _meant(self, only: str | None) -> list[Link]:
        return [link for link in self.links if link.is_meant(only)]

    def _treat(self, only: str | None, way: Way, *, to_come: bool) -> None:
        for link in self._meant(only):
            link.way = way
        if to_come:
            self.to_come[only] = way

    def _reset(self, only: str | None) -> None:
        for link in self._meant(only):
            link.cut(reset=True)

    def _pass_on(self, only: str | None) -> None:
        for way in list(self.to_come) if only is None else [only]:
            self.to_come.pop(way, None)
        for link in self._meant(only):
            if link.lost:
                link.cut()
            link.way = Way()

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self._reserved = self._bound(self.port)  # bound, not listening: nobody else gets the port
        for link in list(self.links):
            link.cut()

    @staticmethod
    def _bound(port: int) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        return bound


@contextmanager
def forwarder(host: str, port: int) -> Iterator[Forwarder]:
    """Give a forwarder, shut at first."""
    made = Forwarder(host, port)
    try:
        yield made
    finally:
        made.close()


async def _one_round() -> None:
    """Let the loop go round: transports that are closing close their sockets in the next one."""
    for _ in range(2):
        await asyncio.sleep(0)
