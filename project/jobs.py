"""Jobs that go wrong on purpose: what `manage.py demo_provoke` enqueues to show an alert, and what the demo shows."""

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


@job("demo.deliver", max_attempts=1, limits=Limits(duration=10))
def deliver(context: Any, *, host: str, note: dict[str, Any]) -> dict[str, Any]:
    """Send a note to a host that the demo knows; any other cannot be found. Nothing goes over a network."""
    if not host.endswith(".example.org"):
        raise ConnectionError(f"host {host} cannot be found, note {note['id']}")
    context.add_cost("demo", Decimal("0.001"))
    return {"delivered": note["id"]}


@job("demo.enlarge", max_attempts=1)
def enlarge(context: Any, *, path: str) -> None:
    """Refuse a picture."""
    raise ValueError(f"{path}: 13000 by 13000 pixels are too many")


@job("demo.ponder", max_attempts=1, limits=Limits(duration=6 * 3_600))
def ponder(context: Any, *, seconds: float) -> None:
    """Be at work for long, without a pause for breath: its stack shows where."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        context.progress(100 * passed / seconds, f"{passed:.0f} of {seconds:.0f} s")
        _think()


def _think() -> None:
    """Work for a moment, and rest for a second."""
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        sum(range(10_000))
    time.sleep(1)
