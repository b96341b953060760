"""Frames and messages: whole wherever the pieces end, of any size, and taken back in order."""

import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.children.protocol import (
    INLINE_BYTES,
    Notice,
    Reader,
    Work,
    ending_from_json,
    frame,
    frame_for,
    receive_message,
    send_message,
    take_back,
)
from jobqueue.managers import CostLine, Done, Ending, Release
from jobqueue.outcomes import Outcome

runs = st.tuples(st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1))
seconds = st.floats(0, 1e9)
dones = st.builds(
    lambda run, result, took, cpu: Done(run[0], run[1], json.dumps(result), took, cpu),
    runs,
    st.one_of(st.none(), st.text(), st.lists(st.integers()), st.just("x" * 100_000)),
    seconds,
    st.one_of(st.none(), seconds),
)
endings = st.builds(
    lambda run, outcome, text, delay, code: Ending(
        run[0], run[1], outcome, "retry", timedelta(seconds=delay), "E", text, text, "f", code, 1.5, 0.5, 7
    ),
    runs,
    st.sampled_from(Outcome),
    st.text(),
    st.integers(0, 10**6),
    st.one_of(st.none(), st.integers(-64, 255)),
)
releases = st.builds(
    lambda run, delay: Release(run[0], run[1], delay),
    runs,
    st.one_of(st.none(), st.builds(timedelta, seconds=st.integers(0, 10**6))),
)


@given(items=st.lists(st.tuples(st.one_of(dones, endings, releases), st.booleans()), max_size=8), data=st.data())
def test_frames_are_whole_wherever_the_pieces_end(
    items: list[tuple[Done | Ending | Release, bool]], data: st.DataObject
) -> None:
    """C49: the stream is cut anywhere, one byte at a time if need be."""
    stream = b"".join(frame_for(item, waits=waits) for item, waits in items)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader, reports = Reader(), []

    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reports += reader.feed(stream[start:end])

    assert [(report.id, report.lease_epoch, report.waits) for report in reports] == [
        (item.id, item.lease_epoch, waits) for item, waits in items
    ]
    for report, (item, _) in zip(reports, items, strict=True):
        if isinstance(item, Done):
            assert report.value == item
        elif isinstance(item, Ending):
            assert ending_from_json(report.value) == item
        else:
            assert report.value == (None if item.delay is None else item.delay.total_seconds())


def test_a_stream_read_byte_by_byte_gives_the_same() -> None:
    reader = Reader()
    stream = frame("P", (1, 2), '{"percent": 1}') + frame("X", (3, 4))

    reports = [report for byte in stream for report in reader.feed(bytes([byte]))]

    assert [(report.kind, report.id, report.value) for report in reports] == [("P", 1, {"percent": 1}), ("X", 3, None)]


def test_an_ending_keeps_all_but_its_costs() -> None:
    """Costs come in frames of their own, at once: an attempt that is killed later has them all the same."""
    ending = Ending(1, 2, Outcome.FAILED, costs=(CostLine("work", "USD", Decimal("0.5")),), limit_hit=True)

    (report,) = Reader().feed(frame_for(ending, waits=False))

    read = ending_from_json(report.value)
    assert (read.outcome, read.limit_hit, tuple(read.costs)) == (Outcome.FAILED, True, ())


@pytest.fixture
def inbox() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return both ends of a child's inbox."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)
    try:
        yield near, far
    finally:
        near.close()
        far.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def work(job_id: int, payload: str = "{}") -> Work:
    return Work(job_id, 3, "probe.ok", "default", 1, 3, len(payload), payload)


@pytest.mark.parametrize("size", [2, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 5_000_000])
def test_a_payload_of_any_size_travels(inbox: tuple[socket.socket, socket.socket], size: int) -> None:
    near, far = inbox
    sent = work(7, json.dumps("é" * ((size - 2) // 2) + "x" * (size % 2), ensure_ascii=False))
    before = open_descriptors()

    send_message(near, sent)

    assert receive_message(far) == sent
    assert open_descriptors() == before


def test_what_was_not_begun_is_taken_back_in_order(inbox: tuple[socket.socket, socket.socket]) -> None:
    near, far = inbox
    notice = Notice("job_dead", {"job_id": 5})
    items: list[Work | Notice] = [work(1), work(2, json.dumps("x" * (INLINE_BYTES + 1))), notice, work(3)]
    for item in items:
        send_message(near, item)

    assert receive_message(far) == items[0], "the child takes one"
    back = list(take_back(far))

    assert back == [items[1], Notice(*json.loads(json.dumps(notice))), items[3]]
    assert list(take_back(far)) == []


def test_a_full_inbox_is_told_and_nothing_of_the_message_stays(inbox: tuple[socket.socket, socket.socket]) -> None:
    near, far = inbox
    sent: list[int] = []

    def fill() -> None:
        while True:
            send_message(near, work(len(sent), json.dumps("x" * 20_000)))
            sent.append(len(sent))

    with pytest.raises(BlockingIOError):
        fill()

    assert [item.id for item in take_back(far) if isinstance(item, Work)] == sent


def test_a_closed_inbox_ends_the_child(inbox: tuple[socket.socket, socket.socket]) -> None:
    near, far = inbox
    send_message(near, work(1))
    near.close()

    assert receive_message(far) == work(1)
    assert receive_message(far) is None
