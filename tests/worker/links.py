"""The connections of a forwarder: both sides, the name read from the start-up packet, and how the bytes are treated."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .forwarder import Forwarder

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
TLS_HANDSHAKE = 0x16
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
NEXT = 1e-6  # the loop does not keep the order of calls that are due at the same moment


class Way(NamedTuple):
    """How a connection's bytes are treated."""

    silent: bool = False
    answers: bool = True  # whether what the server says comes through
    seconds: float = 0.0


class End(asyncio.Protocol):
    """One side of a connection."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.last_at = 0.0  # when the last chunk for this side is due

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def other(self) -> End:
        """The other side."""
        return self.link.far if self is self.link.near else self.link.near

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; a client's first bytes wait until the server is connected."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self is self.link.near:
            self.link.accepted()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        self.link.arrived(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the other side, unless nothing comes through."""
        self.link.ended(self)

    def pause_writing(self) -> None:
        """Read nothing more for a side that takes nothing."""
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self.other.transport is not None:
            self.other.transport.resume_reading()

    def cut(self, *, reset: bool = False) -> None:
        """Close at once, by RST if asked."""
        if self.transport is not None:
            if reset and self.is_open:
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self.transport.abort()


class Link:
    """One connection: the client's side, the server's, and how its bytes are treated."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self.near, self.far = End(self), End(self)
        self.name: str | None = None
        self.way = Way()
        self.lost = False
        self._head = b""
        self._connecting: asyncio.Task[None] | None = None

    def accepted(self) -> None:
        """Connect to the server, unless nothing comes through."""
        self._forwarder.links.add(self)
        self.way = self._forwarder.to_come.get(None, self.way)
        if self.way.silent:
            self.lost = True  # the server never hears of it
        elif self.near.transport is not None:
            self.near.transport.pause_reading()
            self._connecting = asyncio.get_running_loop().create_task(self._connect(self.near.transport))

    async def _connect(self, near: asyncio.Transport) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.far, *self._forwarder.target)
        except OSError:
            self.cut()
        else:
            near.resume_reading()
            if near.is_closing():
                self.far.cut()

    def arrived(self, end: End, data: bytes) -> None:
        """Pass bytes on to the other side, late or never as the way is."""
        if end is self.near and self.name is None:
            self._head += data
            data = self._named()
        loop = asyncio.get_running_loop()
        if not data:
            return
        if self.way.seconds or end.other.last_at > loop.time():
            loop.call_at(self._due(end.other), self._deliver, end.other, data)
        else:
            self._deliver(end.other, data)

    def _due(self, end: End) -> float:
        end.last_at = max(asyncio.get_running_loop().time() + self.way.seconds, end.last_at + NEXT)
        return end.last_at

    def _deliver(self, end: End, data: bytes) -> None:
        deaf = end is self.near and not self.way.answers
        if self.way.silent or deaf or end.transport is None:
            self.lost = True
        elif end.is_open:
            end.transport.write(data)

    def _named(self) -> bytes:
        """Return what may be passed on: whole packets, up to the one that tells the name and all after it."""
        passed = b""
        while self.name is None and len(self._head) >= 8:
            length, code = struct.unpack("!ii", self._head[:8])
            if self._head[0] == TLS_HANDSHAKE or code == CANCEL_REQUEST:
                self._call_it("")
            elif len(self._head) < length:
                break
            elif code in (SSL_REQUEST, GSS_REQUEST):
                passed, self._head = passed + self._head[:length], self._head[length:]
            else:
                words = self._head[8:length].split(b"\0")
                self._call_it(dict(zip(words[::2], words[1::2], strict=False)).get(b"application_name", b"").decode())
        if self.name is not None:
            passed, self._head = passed + self._head, b""
        return passed

    def _call_it(self, name: str) -> None:
        self.name = name
        for only, way in self._forwarder.to_come.items():
            if self.is_meant(only):
                self.way = way

    def is_meant(self, only: str | None) -> bool:
        """Tell whether a choice by application_name means this connection."""
        return only is None or (self.name or "").startswith(only)

    def ended(self, end: End) -> None:
        """Let go of the other side, too; but where nothing comes through it does not learn of the end."""
        if self.way.silent:
            self.lost = True
        elif end.other.transport is not None:
            asyncio.get_running_loop().call_at(self._due(end.other), end.other.transport.close)
        if not (self.near.is_open or self.far.is_open):
            self._forwarder.links.discard(self)

    def cut(self, *, reset: bool = False) -> None:
        """Close both sides at once."""
        self.way = Way()
        for end in (self.near, self.far):
            end.cut(reset=reset)
