"""What travels between supervisor, zygote and children.

Jobs go to a child one a message over a SEQPACKET socket, of which the supervisor keeps a copy of the child's end: a
message that no handler has begun can be read back by the supervisor, and the kernel decides who gets it. So a long job
never holds prefetched ones, whatever its handler does, even with the GIL held. What a child reports comes back as
frames over a stream: a fixed head, then JSON text that nobody on the way decodes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from jobqueue.managers import Done, Ending, Release
from jobqueue.outcomes import Outcome

INLINE_BYTES = 32 * 1024  # a larger payload travels as a memory file: one message must fit the socket's buffer
MESSAGE_BYTES = 64 * 1024
# length of what follows it, kind, job id, lease epoch, waits, run seconds, CPU seconds
FRAME_HEAD = struct.Struct("!Icqq?dd")
# kind, job id, lease epoch, attempt, attempts allowed, payload bytes, lengths of type, queue and trace context
WORK_HEAD = struct.Struct("!cqqhhiBBB")
NOTICE = b"S"  # its kind
LONGEST_NAME_BYTES = 255
FD_BYTES = socket.CMSG_SPACE(4)

# Asks a child to look at its control socket. Only Linux has real-time signals; elsewhere no worker starts.
STOP_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR1) + 4
# Ask a child where its handlers are (stacks.py): in Python, and at once from C where Python cannot answer.
STACK_SIGNAL, DUMP_SIGNAL = STOP_SIGNAL + 1, STOP_SIGNAL + 2

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
    trace_context: str | None = None


class Notice(NamedTuple):
    """A signal that a child is to send for a job whose own child was killed: (signal name, its arguments)."""

    signal: str
    arguments: dict[str, Any]


@functools.lru_cache(maxsize=256)
def _name(text: str) -> bytes:
    # Rows that were written by hand may have longer names than a message has room for: the handler sees their heads.
    return text.encode()[:LONGEST_NAME_BYTES]


@functools.lru_cache(maxsize=256)
def _text(name: bytes) -> str:
    return name.decode(errors="ignore")


def send_message(sock: socket.socket, item: Work | Notice) -> None:
    """Send one job or notice to a child. Raises BlockingIOError when the child's inbox is full."""
    if isinstance(item, Notice):
        sock.send(NOTICE + json.dumps(item).encode())
    else:
        send_job(sock, *item)


def send_job(
    sock: socket.socket,
    job_id: int,
    lease_epoch: int,
    job_type_text: str,
    queue_text: str,
    attempt: int,
    max_attempts: int,
    payload_bytes: int,
    payload: str,
    trace_context: str | None,
) -> None:
    """Send one job, given as the fields of Work. Raises BlockingIOError when the child's inbox is full."""
    job_type, queue = _name(job_type_text), _name(queue_text)
    trace = trace_context.encode()[:LONGEST_NAME_BYTES] if trace_context else b""
    body = payload.encode()
    inline = len(body) <= INLINE_BYTES
    numbers = (job_id, lease_epoch, attempt, max_attempts, payload_bytes, len(job_type), len(queue), len(trace))
    head = WORK_HEAD.pack(b"J" if inline else b"F", *numbers)
    if inline:
        sock.send(b"".join((head, job_type, queue, trace, body)))
        return
    memory = os.memfd_create("jobqueue-payload", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(body)
        socket.send_fds(sock, [head + job_type + queue + trace], [memory])
    finally:
        os.close(memory)


def receive_message(sock: socket.socket, flags: int = 0, *, buffer: bytearray | None = None) -> Work | Notice | None:
    """Take the next message out of a child's inbox; None when the supervisor closed its end.

    `buffer`, of MESSAGE_BYTES, is written over: whoever receives often saves making one for each.
    """
    buffer = bytearray(MESSAGE_BYTES) if buffer is None else buffer
    size, ancillary, _, _ = sock.recvmsg_into([buffer], FD_BYTES, flags)
    if not size:
        return None
    if buffer[0] == NOTICE[0]:
        return Notice(*json.loads(buffer[1:size]))
    head = WORK_HEAD.unpack_from(buffer)
    kind, job_id, epoch, attempt, max_attempts, payload_bytes, type_bytes, queue_bytes, trace_bytes = head
    queue_at = WORK_HEAD.size + type_bytes
    trace_at = queue_at + queue_bytes
    body_at = trace_at + trace_bytes
    if kind == b"F":
        memory = struct.unpack("i", ancillary[0][2])[0]
        with open(memory, "rb") as file:
            file.seek(0)
            payload = file.read().decode()
    else:
        payload = buffer[body_at:size].decode()
    job_type = _text(bytes(buffer[WORK_HEAD.size : queue_at]))
    queue = _text(bytes(buffer[queue_at:trace_at]))
    trace = buffer[trace_at:body_at].decode(errors="ignore") if trace_bytes else None
    # Past the named tuple's own constructor, as everything here is done once a job.
    return tuple.__new__(Work, (job_id, epoch, job_type, queue, attempt, max_attempts, payload_bytes, payload, trace))


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


def frame(
    kind: str, run: tuple[int, int], body: str = "", *, waits: bool = False, seconds: float = 0, cpu: float = -1
) -> bytes:
    """Return a frame about one run; `seconds` and `cpu` (below 0: not known) are a good end's."""
    data = body.encode()
    return FRAME_HEAD.pack(FRAME_HEAD.size - 4 + len(data), kind.encode(), run[0], run[1], waits, seconds, cpu) + data


def frame_for(item: Done | Ending | Release, *, waits: bool) -> bytes:
    """Return the frame that tells how a run ended; `waits`: the child stays until it hears what became of it."""
    if isinstance(item, Done):
        job_id, epoch, result, seconds, cpu, *_ = item
        data = result.encode()
        cpu = -1.0 if cpu is None else cpu
        return FRAME_HEAD.pack(FRAME_HEAD.size - 4 + len(data), b"D", job_id, epoch, waits, seconds, cpu) + data
    run = item.id, item.lease_epoch
    if isinstance(item, Ending):
        return frame("E", run, json.dumps(item.to_json()), waits=waits)
    return frame("R", run, json.dumps(None if item.delay is None else item.delay.total_seconds()), waits=waits)


class Reader:
    """Cuts a stream into frames, wherever the pieces end."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Report]:
        """Add a piece and return the frames that are whole now."""
        if self._rest:
            data = self._rest + data
        reports: list[Report] = []
        start, size, head, make = 0, len(data), FRAME_HEAD.size, tuple.__new__
        while size - start >= head:
            length, kind, job_id, epoch, waits, seconds, cpu = FRAME_HEAD.unpack_from(data, start)
            end = start + 4 + length
            if size < end:
                break
            body = data[start + head : end].decode()
            if kind == b"D":  # nearly all; past the constructors of the named tuples, which take longer than the rest
                done = make(Done, (job_id, epoch, body, seconds, None if cpu < 0 else cpu, None, ()))
                reports.append(make(Report, ("D", job_id, epoch, done, waits)))
            else:
                reports.append(Report(kind.decode(), job_id, epoch, json.loads(body) if body else None, waits))
            start = end
        self._rest = data[start:]
        return reports


def ending_from_json(values: dict[str, Any]) -> Ending:
    """Return the ending that Ending.to_json() wrote; its costs were reported by frames of their own."""
    values = dict(values)
    values.pop("cost")
    values["delay"] = timedelta(seconds=values.pop("delay_seconds"))
    values["outcome"] = Outcome(values["outcome"])
    return Ending(**values)
