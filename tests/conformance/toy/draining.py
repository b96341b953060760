"""How the kit has toy tasks run in its own process."""

from typing import Any

from jobqueue.backends.compat import task_backends


def drain() -> None:
    backend: Any = task_backends["default"]
    backend.drain()
