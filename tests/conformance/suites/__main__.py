"""Fetch the suites, run them, and print what passed, what failed and why that is meant."""

import os
import sys
from pathlib import Path

from .django_suite import Ran, run_django
from .fetching import ROOT, environment_with
from .tasks_db_suite import run_tasks_db

_LEFT_OUT = (
    "django-tasks (the backport), its own tests: not run. Its source distributions hold none (0.9.0 to 0.12.0 were "
    "looked at); our backend runs under the kit on Django 5.2 and the backport."
)


def main() -> int:
    """Run all and return the exit code: 1 for a failure that nobody explained, and for a difference that is none."""
    python_313 = os.environ.get("PYTHON_313")
    if not python_313:
        print("Django's tests/tasks need Python 3.12 or newer: none found, so they are not run")
        return 1
    newest = ROOT / ".venv313" / "bin" / "python"
    if not newest.exists():
        newest = environment_with(Path(python_313), "django-6", "Django>=6,<7")
    pythons = [newest, environment_with(Path(python_313), "django-6.0", "Django>=6.0,<6.1")]
    ran = [suite for python in pythons for suite in run_django(python)]
    ran.append(run_tasks_db(newest))
    faults = sum(_tell(suite) for suite in ran)
    print(_LEFT_OUT)
    print("0 unexplained failures" if not faults else f"{faults} UNEXPLAINED")
    return 1 if faults else 0


def _tell(ran: Ran) -> int:
    counts = {end: sum(each == end for each, _ in ran.ends.values()) for end in ("passed", "failed", "skipped")}
    print(f"{ran.title}: " + ", ".join(f"{count} {end}" for end, count in counts.items()))
    faults = 0 if ran.ends else 1
    if not ran.ends:
        print(f"  NOT RUN: {ran.output[-3000:]}")
    for name, (end, reason) in sorted(ran.ends.items()):
        if end == "skipped":
            print(f"  skipped {name}: {reason}")
        elif end == "failed":
            print(
                f"  {'differs' if name in ran.differences else 'FAILED '} {name}: {ran.differences.get(name, reason)}"
            )
            faults += name not in ran.differences
        elif name in ran.differences:
            print(f"  PASSED  {name}: listed as a difference, and is none")
            faults += 1
    for name, reason in ran.left_out.items():
        print(f"  not run {name}: {reason}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
