"""Tasks of the probe app, found by discovery as a project's are."""

import asyncio

from jobqueue.backends import task


@task
async def waits(seconds: float = 0) -> str:
    """Wait as a coroutine does."""
    await asyncio.sleep(seconds)
    return "waited"
