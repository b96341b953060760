"""Coroutines as tasks. Only imported where the backend takes them: elsewhere the decorator refuses."""

from __future__ import annotations

import asyncio

from .api import task


@task()
async def adds(a: int, b: int) -> int:
    """Add, after it has let others run."""
    await asyncio.sleep(0)
    return a + b


@task()
async def fails() -> None:
    """Fail, after it has let others run."""
    await asyncio.sleep(0)
    raise LookupError("failed on purpose")
