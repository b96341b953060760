"""The charts of the overview: what ended, what failed, how long it waited; with releases marked, and a table each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobqueue.ops.attempts import Point
from jobqueue.ops.trends import Trend, Window

from .charts import NARROW, Chart, Series, Value, bar_chart, line_chart
from .wording import EMPTY, brief, instant, shortened

WINDOWS: Final[dict[Window, Any]] = {
    "1h": gettext_lazy("1 hour"),
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
}
PERIODS: Final[dict[Window, Any]] = {
    "1h": gettext_lazy("by 2 minutes, the last hour"),
    "24h": gettext_lazy("by half hours, the last 24 hours"),
    "7d": gettext_lazy("by 4 hours, the last 7 days"),
}
BELOW: Final[dict[Window, str]] = {"1h": "%H:%M", "24h": "%H:%M", "7d": "%m-%d"}
BEGINS: Final[dict[Window, str]] = {"1h": "%H:%M", "24h": "%m-%d %H:%M", "7d": "%Y-%m-%d %H:%M"}
VERSION_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with its heading and the table behind it, the present period first."""

    chart: Chart
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def figures_of(trend: Trend, zone: str) -> list[Figure] | None:
    """Return the charts of a trend; None where it could not be read, without waits where those could not."""
    if trend.points is None:
        return None
    return [_ended(trend, zone), _failed(trend, zone), *([_waits(trend, zone)] if trend.timed else [])]


def releases_of(trend: Trend) -> list[tuple[str, str, str]]:
    """Return the releases that are marked: the sign of each mark, its version, when it was first seen."""
    return [
        (str(number), shortened(one.version, VERSION_CHARACTERS), instant(one.at))
        for number, one in enumerate(trend.releases, start=1)
    ]


def _ended(trend: Trend, zone: str) -> Figure:
    def text(point: Point) -> str:
        ended = ngettext("%(jobs)d attempt ended", "%(jobs)d attempts ended", point.figures.jobs)
        return ended % {"jobs": point.figures.jobs}

    values = _values(trend, lambda point: point.figures.jobs, text)
    chart = bar_chart(
        "jobqueue-ended",
        title=_("Attempts that ended, %(periods)s") % {"periods": PERIODS[trend.window]},
        description=_described(trend, text(_most(trend, lambda point: point.figures.jobs)), zone),
        values=values,
        marks=_marks(trend),
        width=NARROW,
    )
    rows = _rows(trend, lambda one: [one.done, one.failed, one.jobs - one.done - one.failed, one.jobs])
    return Figure(chart=chart, heads=[_("Done"), _("Failed"), _("Otherwise"), _("All")], rows=rows)


def _failed(trend: Trend, zone: str) -> Figure:
    def text(point: Point) -> str:
        failed = ngettext("%(jobs)d attempt failed", "%(jobs)d attempts failed", point.figures.failed)
        return failed % {"jobs": point.figures.failed}

    values = _values(trend, lambda point: point.figures.failed, text)
    chart = bar_chart(
        "jobqueue-failed",
        title=_("Attempts that failed, %(periods)s") % {"periods": PERIODS[trend.window]},
        description=_described(trend, text(_most(trend, lambda point: point.figures.failed)), zone),
        values=values,
        marks=_marks(trend),
        width=NARROW,
    )
    rows = _rows(trend, lambda one: [one.failed, share(one.failure_rate), one.dead])
    return Figure(chart=chart, heads=[_("Failed"), _("Share"), _("Became dead letters")], rows=rows)


def _waits(trend: Trend, zone: str) -> Figure:
    series = [
        Series(_("half of them waited no longer (p50)"), _seconds(trend, "wait_p50")),
        Series(_("95 % waited no longer (p95)"), _seconds(trend, "wait_p95")),
    ]
    longest = max((wait for point in trend.points or () if (wait := point.figures.wait_p95) is not None), default=None)
    told = _("95 %% waited no longer than %(span)s") % {"span": brief(longest)}
    told = told if longest is not None else _("no wait is known")
    chart = line_chart(
        "jobqueue-waits",
        title=_("Seconds waited, %(periods)s") % {"periods": PERIODS[trend.window]},
        description=_described(trend, told, zone),
        labels=[_label(point, trend) for point in trend.points or ()],
        series=series,
        marks=_marks(trend),
        width=NARROW,
    )
    rows = _rows(trend, lambda one: [brief(one.wait_p50), brief(one.wait_p95)])
    return Figure(chart=chart, heads=["p50", "p95"], rows=rows)


def share(rate: float | None) -> str:
    """Return a share in per cent; `-` of none."""
    return EMPTY if rate is None else f"{rate:.1%}"


def _values(trend: Trend, amount: Callable[[Point], int], text: Callable[[Point], str]) -> list[Value]:
    points = trend.points or ()
    return [
        Value(_label(point, trend), f"{_begins(point, trend)}: {text(point)}", Decimal(amount(point)), number == last)
        for last in [len(points) - 1]
        for number, point in enumerate(points)
    ]


def _seconds(trend: Trend, name: str) -> list[Value | None]:
    return [
        None if seconds is None else Value("", f"{_begins(point, trend)}: {brief(seconds)}", Decimal(seconds))
        for point in trend.points or ()
        for seconds in [getattr(point.figures, name)]
    ]


def _rows(trend: Trend, cells: Callable[[Any], Sequence[Any]]) -> list[tuple[str, list[str]]]:
    points = trend.points or ()
    rows = [(_begins(point, trend), [str(cell) for cell in cells(point.figures)]) for point in reversed(points)]
    return [(_("%(time)s (so far)") % {"time": rows[0][0]}, rows[0][1]), *rows[1:]] if rows else []


def _most(trend: Trend, amount: Callable[[Point], int]) -> Point:
    return max(trend.points or (), key=amount)


def _described(trend: Trend, most: str, zone: str) -> str:
    marks = ", ".join(f"{sign}: {version} {at}" for sign, version, at in releases_of(trend))
    if marks:
        told = _("At most: %(most)s. Releases: %(marks)s. The figures are in the table below. Times: %(zone)s")
    else:
        told = _("At most: %(most)s. The figures are in the table below. Times: %(zone)s")
    return told % {"most": most, "marks": marks, "zone": zone}


def _marks(trend: Trend) -> list[tuple[float, str]]:
    """Return where each release began, in periods from the left, and its sign."""
    points = trend.points or ()
    found = []
    for number, one in enumerate(trend.releases, start=1):
        for place, point in enumerate(points):
            if point.start <= one.at < point.end or (place == len(points) - 1 and one.at >= point.end):
                length = max(1.0, (point.end - point.start).total_seconds())
                found.append((place + min(1.0, (one.at - point.start).total_seconds() / length), str(number)))
                break
    return found


def _label(point: Point, trend: Trend) -> str:
    return f"{point.start:{BELOW[trend.window]}}"


def _begins(point: Point, trend: Trend) -> str:
    return f"{point.start:{BEGINS[trend.window]}}"
