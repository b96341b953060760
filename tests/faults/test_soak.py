"""Forty seconds of the soak: random faults under load, and nothing lost, doubled, leaked or left."""

import os
import subprocess
import sys

from tests.worker.launching import ROOT

SECONDS, SEED = 40, 20261130
WITHIN = 300


def test_forty_seconds_of_random_faults_leave_nothing_unexplained() -> None:
    """C05, C42, C70, U1 to U9: three workers, a mixed load, processes, backends and the server ended at random."""
    command = [sys.executable, "-m", "tests.soak", "--seconds", str(SECONDS), "--seed", str(SEED)]
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}

    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False
    )

    assert ran.returncode == 0, f"{ran.stdout[-8000:]}\n{ran.stderr[-4000:]}"
    assert "0 violations" in ran.stdout
