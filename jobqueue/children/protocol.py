"""What travels between supervisor, zygote and children.

Jobs go to a child one a message over a SEQPACKET socket, of which the supervisor keeps a copy of the child's end: a
message that no handler has begun can be read back by the supervisor, and the kernel decides who gets it. So a long job
never holds prefetched ones, whatever its handler does, even with the GIL held. What a child reports comes back as
frames over a stream: four bytes of length, one byte of kind, a head line of tabs, then JSON text that nobody on the
way decodes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from jobqueue.managers import Done, Ending, Release
from jobqueue.outcomes import Outcome

INLINE_BYTES = 32 * 1024  # a larger payload travels as a memory file: one message must fit the socket's buffer
MESSAGE_BYTES = 64 * 1024
LENGTH = struct.Struct("!I")
FD_BYTES = socket.CMSG_SPACE(4)

# Reasons for which a running handler is stopped.
DEADLINE, CANCEL, INTERRUPT, LEASE_LOST = "deadline", "cancel", "interrupt", "lease-lost"


class Work(NamedTuple):
    """One job as a child gets it. `payload` is the encoded JSON object."""

    id: int
    lease_epoch: int
    job_type: str
    queue: str
    attempt: int
    max_attempts: int
    payload_bytes: int
    payload: str


class Notice(NamedTuple):
    """A signal that a child is to send for a job whose own child was killed: (signal name, its arguments)."""

    signal: str
    arguments: dict[str, Any]


def send_message(sock: socket.socket, item: Work | Notice) -> None:
    """Send one job or notice to a child. Raises BlockingIOError when the child's inbox is full."""
    if isinstance(item, Notice):
        sock.sendmsg([b"S", json.dumps(item).encode()])
        return
    head = "\t".join(map(str, item[:7]))
    body = item.payload.encode()
    if len(body) <= INLINE_BYTES:
        sock.sendmsg([f"J{head}\n".encode(), body])
        return
    memory = os.memfd_create("jobqueue-payload", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(body)
        socket.send_fds(sock, [f"F{head}\n".encode()], [memory])
    finally:
        os.close(memory)


def receive_message(sock: socket.socket, flags: int = 0) -> Work | Notice | None:
    """Take the next message out of a child's inbox; None when the supervisor closed its end."""
    data, ancillary, _, _ = sock.recvmsg(MESSAGE_BYTES, FD_BYTES, flags)
    if not data:
        return None
    kind = data[:1]
    if kind == b"S":
        return Notice(*json.loads(data[1:]))
    head, _, body = data[1:].partition(b"\n")
    if kind == b"F":
        memory = struct.unpack("i", ancillary[0][2])[0]
        with open(memory, "rb") as file:
            file.seek(0)
            body = file.read()
    fields = head.decode().split("\t")
    return Work(
        int(fields[0]),
        int(fields[1]),
        fields[2],
        fields[3],
        int(fields[4]),
        int(fields[5]),
        int(fields[6]),
        body.decode(),
    )


def take_back(sock: socket.socket) -> Iterator[Work | Notice]:
    """Read back, in order, what the child has not begun, from the supervisor's copy of the child's end."""
    with contextlib.suppress(BlockingIOError):
        while True:
            item = receive_message(sock, socket.MSG_DONTWAIT)
            if item is None:
                return
            yield item


class Report(NamedTuple):
    """A frame as the supervisor reads it: what happened, to which run, and what a child waits for."""

    kind: str
    id: int
    lease_epoch: int
    value: Any
    waits: bool = False


def frame(kind: str, head: str, body: str = "") -> bytes:
    """Return a frame."""
    data = f"{kind}{head}\n{body}".encode()
    return LENGTH.pack(len(data)) + data


def frame_for(item: Done | Ending | Release, *, waits: bool) -> bytes:
    """Return the frame that tells how a run ended; `waits`: the child stays until it hears what became of it."""
    flag = int(waits)
    if isinstance(item, Done):
        cpu = "" if item.cpu_seconds is None else f"{item.cpu_seconds:.6f}"
        return frame("D", f"{item.id}\t{item.lease_epoch}\t{flag}\t{item.run_seconds:.6f}\t{cpu}", item.result)
    if isinstance(item, Ending):
        return frame("E", f"{item.id}\t{item.lease_epoch}\t{flag}", json.dumps(item.to_json()))
    delay = None if item.delay is None else item.delay.total_seconds()
    return frame("R", f"{item.id}\t{item.lease_epoch}\t{flag}", json.dumps(delay))


class Reader:
    """Cuts a stream into frames, wherever the pieces end."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Report]:
        """Add a piece and return the frames that are whole now."""
        buffer = self._buffer
        buffer += data
        reports = []
        start = 0
        while len(buffer) - start >= 4:
            end = start + 4 + LENGTH.unpack_from(buffer, start)[0]
            if len(buffer) < end:
                break
            reports.append(_report(buffer[start + 4 : end].decode()))
            start = end
        del buffer[:start]
        return reports


def _report(text: str) -> Report:
    head, _, body = text[1:].partition("\n")
    fields = head.split("\t")
    job_id, epoch, kind = int(fields[0]), int(fields[1]), text[0]
    if kind == "D":
        cpu = float(fields[4]) if fields[4] else None
        done = Done(job_id, epoch, body, float(fields[3]), cpu)
        return Report("D", job_id, epoch, done, fields[2] == "1")
    if kind == "E":
        return Report("E", job_id, epoch, ending_from_json(json.loads(body)), fields[2] == "1")
    return Report(kind, job_id, epoch, json.loads(body) if body else None, len(fields) > 2 and fields[2] == "1")


def ending_from_json(values: dict[str, Any]) -> Ending:
    """Return the ending that Ending.to_json() wrote; its costs were reported by frames of their own."""
    values = dict(values)
    values.pop("cost")
    values["delay"] = timedelta(seconds=values.pop("delay_seconds"))
    values["outcome"] = Outcome(values["outcome"])
    return Ending(**values)
