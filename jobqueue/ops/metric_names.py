"""Names and labels of metrics that others chose: bounded in number, and spelt as Prometheus wants them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from .statistics import Figures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

#: Stands for all that have no series of their own.
OTHER: Final = "other"
MOST_SERIES: Final = 1_000
PREFIX: Final = "jobqueue_app_"
#: Ends of names that Prometheus keeps for parts of families.
RESERVED: Final = ("_total", "_count", "_sum", "_bucket", "_created", "_info")

Labels = tuple[tuple[str, str], ...]


class Named:
    """Chooses whose figures have a series of their own: the busiest; those chosen stay so until the day is over."""

    MOST: Final = 50

    def __init__(self) -> None:
        self._day = 0
        self._chosen: set[tuple[str, ...]] = set()

    def merged(self, found: Mapping[tuple[str, ...], Figures], day: int) -> dict[tuple[str, ...], Figures]:
        """Return the figures by key, sorted, and those of all keys that were not chosen together as "other"."""
        if day != self._day:
            self._day, self._chosen = day, set()
        for key in sorted(found.keys() - self._chosen, key=lambda key: (-found[key].jobs, key)):
            if len(self._chosen) < self.MOST:
                self._chosen.add(key)
        shown = {key: found[key] for key in sorted(found) if key in self._chosen}
        others = [figures for key, figures in found.items() if key not in self._chosen]
        if others:
            key = (OTHER,) * len(next(iter(found)))
            shown[key] = sum(others, start=shown.get(key, Figures()))
        return shown


class Series:
    """The gauges or counters of a project's handlers, each name a family, at most a thousand series in all."""

    def __init__(self, kind: Literal["gauge", "counter"], taken: Collection[str] = ()) -> None:
        """`taken`: names of families that this one must not have, of gauges beside counters."""
        self._kind, self._taken = kind, taken
        self._found: dict[str, dict[Labels, float]] = {}
        self._count = self._dropped = 0

    def add(self, name: str, labels: Mapping[str, Any], value: float, *, worker: str = "") -> None:
        """Take one value; of counters with the same name and labels the sum, of gauges the last counts."""
        name = _family_name(name, self._kind)
        family = self._found.setdefault(f"{name}_counted" if name in self._taken else name, {})
        key = _labels(labels, worker)
        if key not in family:
            if self._count >= MOST_SERIES:
                self._dropped += 1
                return
            self._count += 1
        family[key] = value + family.get(key, 0.0) if self._kind == "counter" else value

    def families(self) -> Iterator[Metric]:
        """Yield a family a name, and how many series found no room."""
        from prometheus_client.core import Metric as Family  # noqa: PLC0415

        text = "Told by jobqueue.gauge()" if self._kind == "gauge" else "Counted by jobqueue.count()"
        suffix = "_total" if self._kind == "counter" else ""
        for name, values in sorted(self._found.items()):
            family = Family(name, text, self._kind)
            for labels, value in sorted(values.items()):
                family.add_sample(f"{name}{suffix}", dict(labels), value)
            yield family
        dropped = Family(
            f"jobqueue_{self._kind}_series_dropped", "Series of the project beyond the thousandth", "gauge"
        )
        dropped.add_sample(dropped.name, {}, self._dropped)
        yield dropped


def gauge_series(workers: Iterable[tuple[str, Iterable[Mapping[str, Any]]]]) -> Series:
    """Return the gauges of the workers: (worker id, what it reported)."""
    series = Series("gauge")
    for worker_id, gauges in workers:
        for one in gauges:
            name, labels, value = one.get("name"), one.get("labels"), one.get("value")
            if isinstance(name, str) and isinstance(value, int | float):
                series.add(name, labels if isinstance(labels, Mapping) else {}, float(value), worker=worker_id)
    return series


def _family_name(name: str, kind: str) -> str:
    """Return the family's name; a gauge never looks like a part of a counter or a histogram."""
    name = f"{PREFIX}{name}"
    if kind == "counter":
        return name.removesuffix("_total")
    return f"{name}_value" if name.endswith(RESERVED) else name


def _labels(labels: Mapping[str, Any], worker: str) -> Labels:
    # Names that begin with two underscores, and "worker", are taken: as Prometheus does with such, they are renamed.
    found = {
        f"exported_{name}" if name.startswith("__") or name == "worker" else name: str(labels[name]) for name in labels
    }
    if worker:
        found["worker"] = worker
    return tuple(sorted(found.items()))
