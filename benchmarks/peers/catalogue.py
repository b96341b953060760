"""The peers by name: the module that drives each, and what it needs to be installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OURS = "jobqueue"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One peer. Its pinned requirements are requirements/MODULE.txt; without that file it runs in this environment."""

    name: str  # as its own documents write it
    module: str  # of benchmarks.peers.drivers
    python: tuple[int, int] = (3, 11)  # the oldest that its pinned versions run on
    redis: bool = False  # its store is Redis: no durability unlike all the others


PEERS = {
    entry.name: entry
    for entry in (
        Entry(name=OURS, module="jobqueue"),
        Entry(name="procrastinate", module="procrastinate"),
        Entry(name="pgqueuer", module="pgqueuer"),
        Entry(name="chancy", module="chancy"),
        Entry(name="oban", module="oban", python=(3, 12)),
        Entry(name="awa", module="awa"),
        Entry(name="django-tasks-db", module="django_tasks_db", python=(3, 12)),
        Entry(name="django-ox", module="django_ox", python=(3, 12)),
        Entry(name="dj-queue", module="dj_queue", python=(3, 12)),
        Entry(name="django-vtasks", module="django_vtasks", python=(3, 12)),
        Entry(name="django-vtasks-batch", module="django_vtasks_batch", python=(3, 12)),
        Entry(name="steady-queue", module="steady_queue", python=(3, 12)),
        Entry(name="django-q2", module="django_q2", python=(3, 12)),
        Entry(name="celery", module="celery", redis=True),
        Entry(name="rq", module="rq", redis=True),
        Entry(name="huey", module="huey", redis=True),
    )
}


def entries(names: str) -> list[Entry]:
    """Return the peers of a list with commas, or of "all". Raises ValueError for a name that is none."""
    wanted: Sequence[str] = list(PEERS) if names == "all" else [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in PEERS]
    if unknown:
        raise ValueError(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in wanted]
