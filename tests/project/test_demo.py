"""The demo as people run it: one process that starts the rest, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from project.demo.processes import free_port
from project.samples import Samples

ROOT = Path(__file__).resolve().parents[2]
CLOSING = re.compile(r"done (\d+) dead (\d+) pending 0 running 0 scheduled 0 cancelled 0")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(demo_url: str, worker_env: dict[str, str], samples: Samples) -> Iterator[Start]:
    """Return a function that starts the demo on the test server, with samples that are made already."""
    started: list[subprocess.Popen[str]] = []

    def start_one(**environment: str) -> "subprocess.Popen[str]":
        given = {"DEMO_HOME": str(samples.folder.parent), "DEMO_PORT": str(free_port(0, 0)), **environment}
        demo = subprocess.Popen(
            [sys.executable, "-m", "project.demo"],
            env={**worker_env, **given},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(demo)
        return demo

    yield start_one
    for demo in started:
        if demo.poll() is None:
            demo.terminate()
            demo.communicate()


def left_running(home: Path) -> list[str]:
    """Return the command lines of processes that belong to the demo with that home."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("DEMO_HOME") == str(home):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def test_the_demo_does_its_work_and_ends_with_the_counts(start: Start, demo_url: str, samples: Samples) -> None:
    demo = start(DEMO_SECONDS="120", DEMO_PASSWORD="chosen")

    told, _ = demo.communicate()

    assert demo.returncode == 0, told
    closing = CLOSING.fullmatch(told.splitlines()[-1])
    assert closing is not None, told
    assert int(closing[1]) >= 130
    assert "password: chosen" in told
    assert "the form enqueued a folder from a request" in told
    assert re.search(r"partner.notify .*: done at attempt \d; before that: .*refused", told), told
    for cause in ("truncated.pdf", "thick.pdf", "access-log.txt", "site-map.png"):
        assert re.search(rf"documents.index {cause}: dead letter", told), told
    with psycopg.connect(f"{demo_url}_demo") as connection:
        outcomes = {
            (Path(path).name, kind): (outcome, attempts)
            for path, kind, outcome, attempts in connection.execute(
                "SELECT payload ->> 'path', job_type, outcome, attempts FROM jobqueue_job WHERE status = 4"
            )
        }
    assert outcomes == {
        ("truncated.pdf", "documents.index"): (2, 3),
        ("thick.pdf", "documents.index"): (10, 1),
        ("access-log.txt", "documents.index"): (10, 1),
        ("site-map.png", "documents.index"): (4, 1),
        ("access-log.txt", "documents.search"): (3, 2),
        ("report-01.pdf", "documents.native_crash"): (5, 2),
    }
    assert left_running(samples.folder.parent) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything(start: Start, samples: Samples, number: signal.Signals) -> None:
    demo = start()
    assert demo.stdout is not None
    for line in demo.stdout:
        if "the form enqueued" in line:
            break

    demo.send_signal(number)
    told, _ = demo.communicate()

    assert demo.returncode == 0, told
    assert re.fullmatch(r"done \d+ dead \d+ pending \d+ running 0 scheduled \d+ cancelled 0", told.splitlines()[-1]), (
        told
    )
    assert left_running(samples.folder.parent) == []
