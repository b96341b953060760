"""Charts over time: what is not over yet, marks in their places, lines that break, and the table behind."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from jobqueue.admin import charts
from jobqueue.admin.charts import Series, Value, line_chart
from jobqueue.admin.trend_charts import figures_of, releases_of
from jobqueue.ops.attempts import Figures, Point
from jobqueue.ops.trends import Deploy, Trend
from jobqueue.outcomes import Outcome

BEGIN = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)
STEP = timedelta(minutes=2)


def trend(*done: int, **options: object) -> Trend:
    points = [
        Point(
            BEGIN + STEP * number,
            BEGIN + STEP * (number + 1),
            Figures(outcomes={Outcome.DONE: jobs, Outcome.FAILED: 1}),
        )
        for number, jobs in enumerate(done)
    ]
    return Trend(window="1h", points=tuple(points), **options)  # type: ignore[arg-type]


def test_the_last_bar_is_of_a_time_that_is_not_over() -> None:
    figures = figures_of(trend(5, 7, 2), "UTC")

    assert figures is not None
    ended = figures[0]
    assert [bar.partial for bar in ended.chart.bars] == [False, False, True]
    assert ended.rows[0] == ("16:04 (so far)", ["2", "1", "0", "3"])
    assert ended.rows[2] == ("16:00", ["5", "1", "0", "6"])
    assert "At most: 8 attempts ended" in ended.chart.description


def test_a_release_is_marked_where_it_began() -> None:
    read = trend(1, 1, 1, 1, releases=(Deploy(BEGIN + STEP * 1.5, "2026.11"), Deploy(BEGIN + STEP * 9, "late")))
    figures = figures_of(read, "UTC")

    assert figures is not None
    chart = figures[0].chart
    slot = (charts.NARROW - charts.LEFT - charts.RIGHT) / 4
    assert [(mark.text, float(mark.at)) for mark in chart.marks] == [
        ("1", round(charts.LEFT + 1.5 * slot, 1)),
        ("2", charts.NARROW - charts.RIGHT),
    ]
    assert "1: 2026.11 2026-11-30 16:03:00" in chart.description
    assert [sign for sign, _version, _at in releases_of(read)] == ["1", "2"]


def test_marks_that_would_lie_on_each_other_have_one_text() -> None:
    begun = [Deploy(BEGIN + STEP * 0.5, "a"), *(Deploy(BEGIN + STEP * (2 + part / 50), "b") for part in range(3))]
    figures = figures_of(trend(1, 1, 1, 1, releases=tuple(begun)), "UTC")

    assert figures is not None
    assert [mark.text for mark in figures[0].chart.marks] == ["1", "2-4", "", ""]


def test_waits_have_no_chart_where_they_could_not_be_read() -> None:
    assert len(figures_of(trend(1), "UTC") or []) == 3
    assert len(figures_of(trend(1, timed=False), "UTC") or []) == 2
    assert figures_of(Trend(window="1h"), "UTC") is None


def test_a_line_breaks_where_it_has_no_value() -> None:
    values = [Value("", "", Decimal(1)), Value("", "", Decimal(2)), None, Value("", "", Decimal(3))]

    chart = line_chart("x", title="", description="", labels=["a", "b", "c", "d"], series=[Series("s", values)])

    (line,) = chart.lines
    assert len(line.spots) == 3
    assert [len(piece.split()) for piece in line.pieces] == [2]
    assert all(charts.TOP <= float(spot.y) <= charts.HEIGHT - charts.BOTTOM for spot in line.spots)
