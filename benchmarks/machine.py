"""The machine and the server: what they are, and how much of the processors others took during a sample."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import django
import psutil
import psycopg

import jobqueue

from . import database

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
# What initdb writes and what says where the server listens; none of it changes how fast it is.
HARMLESS = {
    *("application_name", "client_encoding", "DateStyle", "TimeZone", "default_text_search_config", "log_timezone"),
    *("dynamic_shared_memory_type", "lc_messages", "lc_monetary", "lc_numeric", "lc_time", "listen_addresses", "port"),
    *("unix_socket_directories", "max_connections", "autovacuum_worker_slots"),
}
BY_INITDB = {"shared_buffers": "16384", "max_wal_size": "1024", "min_wal_size": "80"}


def describe() -> dict[str, Any]:
    """Return what a reader needs to judge the figures: hardware, versions, and what the server sets otherwise."""
    with database.connect() as connection:
        rows = connection.execute("SELECT name, setting, source FROM pg_settings").fetchall()
        version = connection.execute("SELECT current_setting('server_version')").fetchone()
    settings = {name: value for name, value, _ in rows}
    changed = {name: value for name, value, source in rows if source not in ("default", "override", "client")}
    return {
        "taken": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "django": django.get_version(),
        "psycopg": psycopg.__version__,
        "jobqueue": jobqueue.__version__,
        "postgresql": str(version[0]).split()[0] if version else "",
        "durability": {name: settings[name] for name in DURABLE},
        "changed_settings": {
            name: value
            for name, value in changed.items()
            if name not in HARMLESS and BY_INITDB.get(name) != value and name not in DURABLE
        },
    }


def processor() -> str:
    """Return the processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Cpu:
    """Measures, as a context manager, the processor seconds of this process's tree and of the server's.

    What the tree started must have ended, or still run: both are counted. A server elsewhere counts for nothing.
    """

    def __init__(self) -> None:
        self.ours = self.server = 0.0
        self._server = _postmaster()

    def __enter__(self) -> Self:
        self._before = self._now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.ours, self.server = (after - before for after, before in zip(self._now(), self._before, strict=True))

    def _now(self) -> tuple[float, float]:
        return tree_seconds(os.getpid()), tree_seconds(self._server) if self._server else 0.0


class Noise:
    """Measures, as a context manager, the share of the processors that neither we nor the server used.

    All time that the kernel counts as used or stolen, less that of this process's tree and of the server's. A server
    on another machine counts for nothing here, as it should.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._server = _postmaster()

    def __enter__(self) -> Self:
        self._began, self._before = time.monotonic(), self._foreign()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = max(time.monotonic() - self._began, 0.01)
        self.share = max(0.0, (self._foreign() - self._before) / seconds / (os.cpu_count() or 1))

    def _foreign(self) -> float:
        times = psutil.cpu_times()
        used = times.user + times.system + times.nice + getattr(times, "irq", 0) + getattr(times, "softirq", 0)
        ours = tree_seconds(os.getpid()) + (tree_seconds(self._server) if self._server else 0.0)
        return used + getattr(times, "steal", 0) - ours


def tree_seconds(pid: int) -> float:
    """Return the time used by a process, by those it has waited for, and by all that live below it."""
    seconds = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = each.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _postmaster() -> int | None:
    """Return the pid of the server's first process, if it runs on this machine."""
    with database.connect() as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        with contextlib.suppress(psutil.Error):
            backend = psutil.Process(int(row[0]) if row else 0)
            return backend.ppid() if "postgres" in backend.name() else None
    return None
