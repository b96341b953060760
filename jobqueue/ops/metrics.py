"""The figures in Prometheus' format: a collector over the snapshot and the day's sums, which keeps nothing itself.

Counters and histograms count since midnight UTC and begin anew then, in every process at once (ops/day.py says why);
rate() and increase() take that for the reset it is. Labels are bounded: the busiest fifty queues and types by name, the
rest together as "other". Needs the extra: pip install 'jobqueue[metrics]'. See docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobqueue.exceptions import ConfigurationError
from jobqueue.models import Job

from .day import read_day
from .metric_families import day_families, snapshot_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


class Collector:
    """Gives the queue's figures at each scrape; `registry.register(Collector())` adds them to a project's own page."""

    def __init__(self, using: str | None = None, *, costs: bool = True) -> None:
        """`using`: the alias of the jobs' database; `costs` False leaves money out. Raises ConfigurationError."""
        require_client()
        self._using, self._costs = using, costs

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering asks no database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the figures and yield their families."""
        manager = Job.objects if self._using is None else Job.objects.db_manager(self._using)
        snapshot = manager.ops()
        taken = set()
        for family in snapshot_families(snapshot, costs=self._costs):
            taken.add(family.name)
            yield family
        if not snapshot.error:
            yield from day_families(read_day(manager), taken, costs=self._costs)


def exposition(accept: str = "", *, using: str | None = None, costs: bool = True) -> tuple[bytes, str]:
    """Return the page and its content type, in the format that an Accept header asks for.

    Raises ConfigurationError where prometheus_client is missing.
    """
    client = require_client()
    registry = client.CollectorRegistry()
    registry.register(Collector(using, costs=costs))
    return encoded(registry, accept)


def encoded(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return what a registry collects, and the content type, in the format that an Accept header asks for."""
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def require_client() -> Any:
    """Return prometheus_client. Raises ConfigurationError naming the extra where it is missing."""
    try:
        import prometheus_client  # noqa: PLC0415
    except ImportError as error:
        msg = "metrics need prometheus_client: pip install 'jobqueue[metrics]'"
        raise ConfigurationError(msg) from error
    return prometheus_client
