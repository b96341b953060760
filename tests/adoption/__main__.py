"""Add jobqueue to new projects: `make test-install`, or `python -m tests.adoption`; about a minute for each.

The wheel is built, installed without any extra into fresh environments, and used: three lines of settings, migrate, a
job from a view, a worker, the console. Once with Django 5.2, once on Python 3.13 (PYTHON_313) with the newest Django,
once with every requirement at the lowest version that setup.cfg allows, once by `pip install .` of the checkout's
sources with the extras. Ends with status 1 where a step does.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from project import postgres

from .building import Built, build
from .scratch import STEPS, Scratch, StepFailed, lowest_requirements, new_database


def projects(built: Built) -> Iterator[tuple[str, str, list[str]]]:
    """Yield what each project is, its Python and what is installed there."""
    wheel, this = str(built.wheel), sys.executable
    # Without the extra [binary] psycopg wants the C library of PostgreSQL, which a machine may not have.
    driver = [] if ctypes.util.find_library("pq") else ["psycopg[binary]"]
    yield "the wheel alone, Django 5.2", this, [wheel, *driver, "django>=5.2,<5.3"]
    if newest := os.environ.get("PYTHON_313"):
        yield "the wheel alone, newest Django", newest, [wheel, *driver]
    else:
        print("NOTE: Python 3.13 is missing, and so is the project with the newest Django")
    yield "the lowest versions of everything", this, [wheel, *lowest_requirements()]
    extras = "binary,metrics,otel,tasks,test,web,webhooks"
    yield "the sdist with its extras", this, [f"jobqueue[{extras}] @ {built.sdist.as_uri()}", "django>=5.2,<5.3"]


def adopt(folder: Path, python: str, requirements: list[str], server: str) -> str:
    """Go through the whole scenario once; returns the versions used. Raises StepFailed."""
    folder.mkdir()
    scratch = Scratch(folder, python)
    scratch.install(*requirements)
    with new_database(server) as conninfo:
        scratch.start_project(conninfo)
        for step in STEPS:
            scratch.manage(step)
    return scratch.versions()


def main() -> int:
    """Go through all; returns the exit status."""
    server = os.environ.get("DATABASE_URL") or postgres.ensure_running()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="jobqueue-adoption-") as name:
        folder = Path(name)
        for number, (what, python, requirements) in enumerate(projects(build(folder / "build"))):
            began = time.monotonic()
            try:
                told = adopt(folder / f"project-{number}", python, requirements, server)
            except StepFailed as error:
                failed, told = failed + 1, f"FAILED: {error}"
            print(f"{time.monotonic() - began:5.1f} s  {what}: {told}", flush=True)
    print(f"{failed} failed" if failed else "all went through")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
