"""Handlers that are coroutines."""

import asyncio
import os
import sys
import time
from typing import Any

from django.contrib.auth.models import Group

from jobqueue import Limits, job

from .effects import record


@job("probe.async_ok")
async def async_ok(context: Any, *, seconds: float = 0) -> str:
    """Wait without blocking, then end well."""
    await asyncio.sleep(seconds)
    return "awaited"


@job("probe.async_mark")
async def async_mark(context: Any, *, seconds: float = 0) -> str:
    """Record start and end, waiting in between."""
    await asyncio.to_thread(record, context, "start")
    try:
        await asyncio.sleep(seconds)
    except BaseException as error:
        await asyncio.to_thread(record, context, "stopped", type(error).__name__)
        raise
    await asyncio.to_thread(record, context, "end")
    return "awaited"


@job("probe.async_wait_at")
async def async_wait_at(context: Any, *, gate: str) -> None:
    """Wait, without blocking, until a byte comes through a named pipe."""
    pipe = os.open(gate, os.O_RDWR)
    await asyncio.to_thread(record, context, "start")
    await asyncio.to_thread(os.read, pipe, 1)
    os.close(pipe)
    await asyncio.to_thread(record, context, "end")


@job("probe.async_orm")
async def async_orm(context: Any) -> int:
    """Ask the database something."""
    return await Group.objects.acount()


@job("probe.async_raises", max_attempts=1)
async def async_raises(context: Any, *, kind: str) -> None:
    """Raise in a coroutine."""
    if kind == "exit":
        sys.exit(3)
    if kind == "keyboard":
        raise KeyboardInterrupt
    if kind == "cancelled":
        raise asyncio.CancelledError
    raise RuntimeError("boom")


@job("probe.async_late", max_attempts=1, limits=Limits(duration=0.6))
async def async_late(context: Any, *, how: str) -> str:
    """Be late: waiting, computing, or swallowing the cancellation."""
    if how == "waits":
        await asyncio.sleep(30)
    elif how == "computes":
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass
    while how == "swallows":
        try:
            await asyncio.sleep(0.05)
        except BaseException:
            continue
    return "done"
