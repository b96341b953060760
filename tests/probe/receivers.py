"""Receivers of the product's signals, connected where PROBE_RECEIVERS says what they do: record, raise, burn."""

import os
import sys
import time
from typing import Any

import psycopg
from django.dispatch import Signal

import jobqueue
from jobqueue import signals

NAMES = ("job_started", "job_done", "job_retrying", "job_dead", "job_cancelled")


def record_signal(signal: Signal, sender: str, **arguments: Any) -> None:
    """Write down the signal, the job's status as committed, and the exception that is being handled."""
    name = next(name for name in NAMES if getattr(signals, name) is signal)
    with psycopg.connect(os.environ["PROBE_DSN"], autocommit=True, application_name="probe") as connection:
        row = connection.execute("SELECT status FROM jobqueue_job WHERE id = %s", [arguments["job_id"]]).fetchone()
        handled = sys.exc_info()[1]
        connection.execute(
            "INSERT INTO probe_effect (job_id, attempt, lease_epoch, pid, event, detail)"
            " VALUES (%s, %s, 0, %s, %s, %s)",
            [arguments["job_id"], arguments["attempt"], os.getpid(), name, f"{row and row[0]} {handled!r}"],
        )


def dawdle(signal: Signal, sender: str, **arguments: Any) -> None:
    """Take a second, then record."""
    time.sleep(1)
    record_signal(signal, sender, **arguments)


def dawdle_dead(signal: Signal, sender: str, **arguments: Any) -> None:
    """Record, then take three seconds."""
    record_signal(signal, sender, **arguments)
    time.sleep(3)


def raise_always(signal: Signal, sender: str, **arguments: Any) -> None:
    """Fail."""
    raise RuntimeError("receiver boom")


def raise_for_worker(signal: Signal, sender: None, **arguments: Any) -> None:
    """Fail when a worker starts or ends."""
    raise RuntimeError(f"worker receiver boom: {sorted(arguments)}")


def measure_heartbeat(signal: Signal, sender: None, *, worker_id: str, **arguments: Any) -> None:
    """Tell which process this is, and that a heartbeat came."""
    jobqueue.gauge("receiver_pid", os.getpid())
    jobqueue.count("heartbeats", worker=worker_id)


def connect_worker_receivers() -> None:
    """Connect to the signals of a worker, which its supervisor sends: handler modules are not imported there."""
    if os.environ.get("PROBE_RECEIVERS") == "raise":
        signals.worker_started.connect(raise_for_worker, weak=False)
        signals.worker_stopped.connect(raise_for_worker, weak=False)


def burn(**_: Any) -> None:
    """Take half a second of the processor."""
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass


def connect_receivers() -> None:
    """Connect what PROBE_RECEIVERS asks for, to every signal of a job."""
    known = {"record": record_signal, "raise": raise_always, "dawdle": dawdle}
    if os.environ.get("PROBE_RECEIVERS") == "burn_done":
        signals.job_done.connect(burn, weak=False)
    if os.environ.get("PROBE_RECEIVERS") == "dawdle_dead":
        signals.job_dead.connect(dawdle_dead, weak=False)
    if os.environ.get("PROBE_RECEIVERS") == "heartbeat":
        signals.worker_heartbeat.connect(measure_heartbeat, weak=False)
    chosen = known.get(os.environ.get("PROBE_RECEIVERS", ""))
    if chosen is not None:
        for name in NAMES:
            getattr(signals, name).connect(chosen, weak=False)
