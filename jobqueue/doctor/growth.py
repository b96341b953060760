"""How large the tables are, how fast they grow, and when retention balances it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import DurationField, ExpressionWrapper, F

from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.database import JOBS
from jobqueue.ops.statistics import figures
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .findings import Finding, Told
from .looking import Look, finding

WINDOW: Final = timedelta(days=7)
LEAST_SECONDS: Final = 3_600
LEAST_ROWS: Final = 100
DAY: Final = 86_400
AGE: Final = ExpressionWrapper(StatementTimestamp() - F("finished_at"), output_field=DurationField())
BEHIND: Final = timedelta(hours=6)


def growth(look: Look) -> Told:
    """Tell sizes and a forecast, and whether retention does its work."""
    tables = look.figures("database.tables", "database.sizes").database.tables
    total = sum((one.table_bytes or 0) + (one.index_bytes or 0) for one in tables)
    jobs = next((one for one in tables if one.table == JOBS), None)
    rate = _finished_a_day(look)
    detail = f"{total / 1e6:.0f} MB in all"
    if jobs is not None and rate and jobs.live_rows >= LEAST_ROWS:
        row = ((jobs.table_bytes or 0) + (jobs.index_bytes or 0)) / jobs.live_rows
        grown = f"{rate:.0f} jobs a day of {row:.0f} bytes each: {rate * row / 1e6:.0f} MB a day"
        detail += f"; {grown}{_balance(look, rate, row)}"
    return Told(detail, _findings(look, rate))


def _finished_a_day(look: Look) -> float | None:
    """Return how many jobs end a day; None: nothing has ended for long enough to say."""
    one = look.read(lambda: figures(WINDOW, by=(), times=False, using=look.alias)[()])
    finished = one.done + one.dead + one.outcomes.get(Outcome.CANCELLED, 0)
    return finished / one.seconds * DAY if one.seconds >= LEAST_SECONDS and finished else None


def _balance(look: Look, rate: float, row: float) -> str:
    """Return when as much is pruned as comes, and at which size."""
    kept = look.settings.RETENTION_DONE_SECONDS
    if kept is None:
        return ", without end"
    oldest = _oldest_done_seconds(look) or 0
    days = max(0.0, (kept - oldest) / DAY)
    size = rate * row * kept / DAY / 1e6
    return f"; retention balances {'now' if not days else f'in {days:.1f} days'}, at about {size:.0f} MB"


def _findings(look: Look, rate: float | None) -> list[Finding]:
    kept = look.settings.RETENTION_DONE_SECONDS
    if kept is None:
        return [finding("retention_off", f"{rate:.0f} jobs a day")] if rate else []
    oldest = _oldest_done_seconds(look)
    if oldest is None or oldest <= kept + BEHIND.total_seconds():
        return []
    text = f"the oldest finished {oldest / DAY:.1f} days ago, RETENTION_DONE_SECONDS is {kept / DAY:.1f} days"
    return [finding("prune_behind", text)]


def _oldest_done_seconds(look: Look) -> float | None:
    done = look.manager.using(look.alias).filter(status=Status.DONE, finished_at__isnull=False)
    ages = done.order_by("status", "finished_at", "id").values_list(AGE)[:1]
    found = look.read(lambda: list(ages))
    return found[0][0].total_seconds() if found else None
