"""Jobs that go wrong on purpose: what `manage.py demo_provoke` enqueues to show an alert."""

import time
from decimal import Decimal
from typing import Any

import jobqueue
from jobqueue import Limits, job


@job("demo.sleep", max_attempts=1, limits=Limits(duration=900))
def sleep(context: Any, *, seconds: float) -> None:
    """Keep a slot busy."""
    time.sleep(seconds)


@job("demo.overrun", max_attempts=1, limits=Limits(duration=1))
def overrun(context: Any) -> None:
    """Take longer than it may."""
    time.sleep(60)


@job("demo.fail", max_attempts=1)
def fail(context: Any, *, password: str = "") -> None:
    """Fail; the error's text holds what was given, which no alert shows."""
    raise RuntimeError(f"refused by the partner: password={password}")


@job("demo.spend", max_attempts=1)
def spend(context: Any, *, amount: str) -> None:
    """Cost something."""
    context.add_cost("demo", Decimal(amount))


@job("demo.measure", max_attempts=1)
def measure(context: Any, *, ports: float, blocked: float) -> None:
    """Measure and count what the templates for gauges and counters look at."""
    jobqueue.gauge("demo_ports_pct", ports)
    jobqueue.count("demo_sessions", blocked, end_reason="block")
