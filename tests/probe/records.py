"""Handlers whose failures are hard to write down, and some that fail until they are told that it is mended."""

import socket
import sys
from collections.abc import Callable
from decimal import Decimal
from types import CodeType, FunctionType
from typing import Any, NoReturn

from django.contrib.auth.models import Group
from django.db import transaction

from jobqueue import Backoff, job

QUICK = Backoff(base=0.05, cap=0.1)


class Connected(Exception):
    """Holds a socket, which nothing can pickle."""

    def __init__(self) -> None:
        super().__init__("connected")
        self.socket = socket.socket()
        self.thread_state = sys._getframe()


class Talkative(Exception):
    """Has notes that are no text, causes that go in a circle, and a class name that no text column can hold."""


def _fail() -> NoReturn:
    raise RuntimeError("in a strange place")


def _in_strange_frame() -> NoReturn:
    """Fail in a function whose name and file hold NUL and half a surrogate pair."""
    code: CodeType = _fail.__code__.replace(co_name="na\x00me", co_filename="fi\x00le\ud800.py")
    FunctionType(code, {})()
    raise AssertionError


def _in_long_frames(depth: int) -> NoReturn:
    """Fail below so many frames that the traceback takes 200 KB, no two lines alike."""
    call: Callable[[], Any] = _fail
    for number in range(depth):
        source = f"def step_{number}(call=call):\n    return call()\n"
        names: dict[str, Any] = {"call": call}
        exec(compile(source, f"/srv/{number}/{'x' * 1_900}.py", "exec"), names)
        call = names[f"step_{number}"]
    call()
    raise AssertionError


def _talkative() -> NoReturn:
    kind = type("Odd", (Talkative,), {"__module__": "odd\x00module", "__qualname__": "Na\x00me\ud800"})
    first, second = kind("a\x00b\ud800"), kind("the other")
    first.__cause__, second.__cause__ = second, first
    first.__notes__ = [b"\x00", "a note with \x00", object()]
    raise first


def _deep(depth: int) -> int:
    if depth == 0:
        raise RecursionError("maximum recursion depth exceeded")
    return _deep(depth - 1) + 1


@job("probe.hard_to_tell", max_attempts=2, backoff=QUICK)
def hard_to_tell(context: Any, *, kind: str) -> None:
    """Fail in a way that is hard to store."""
    if kind == "frame":
        _in_strange_frame()
    if kind == "talkative":
        _talkative()
    if kind == "recursion":
        _deep(900)
    if kind == "huge":
        raise RuntimeError("x" * 50_000_000)
    if kind == "huge_wide":
        raise RuntimeError("\U0001f40c\x00" * 5_000_000)
    if kind == "group":
        raise ExceptionGroup("many", [RuntimeError("y" * 1_000) for _ in range(2_000)])
    raise Connected


@job("probe.long_traces", max_attempts=30, backoff=QUICK)
def long_traces(context: Any) -> None:
    """Fail thirty times with a traceback of 200 KB."""
    _in_long_frames(100)


@job("probe.waits_for_group", max_attempts=3, backoff=QUICK)
def waits_for_group(context: Any, *, name: str) -> int:
    """Fail until somebody has made the group: what is broken outside of the job and then mended."""
    if not Group.objects.filter(name=name).exists():
        raise RuntimeError("still broken")
    return int(context.attempt)


@job("probe.commit_hook_in_effect", max_attempts=2, backoff=QUICK)
def commit_hook_in_effect(context: Any, *, name: str) -> None:
    """Write a row, then fail in a commit hook: the row stays."""

    def fail() -> None:
        raise RuntimeError("hook boom")

    with transaction.atomic():
        Group.objects.create(name=f"{name}-{context.attempt}")
        transaction.on_commit(fail)


@job("probe.gentle_backoff", max_attempts=5000, backoff=Backoff(base=1, factor=2, cap=60))
def gentle_backoff(context: Any) -> None:
    """Fail; the backoff doubles from a second to a minute."""
    raise RuntimeError("boom")


@job("probe.wide_backoff", max_attempts=5, backoff=Backoff(base=30, factor=2, cap=1000))
def wide_backoff(context: Any) -> None:
    """Fail with all others in the same second."""
    raise RuntimeError("boom")


@job("probe.spends", max_attempts=2, backoff=QUICK)
def spends(context: Any, *, amounts: list[str]) -> None:
    """Report costs, then fail."""
    for amount in amounts:
        context.add_cost("work", Decimal(amount))
    raise RuntimeError("after spending")
