"""django-tasks-db's tests.py, with a shim in the place of its package: its table and commands, by way of ours."""

import re
import shutil
from pathlib import Path

from . import differences
from .django_suite import Ran, run
from .fetching import source_of

VERSION = "0.13.0"
SHIM = Path(__file__).with_name("shim")
#: How many queries its worker makes for a task is its own matter.
_QUERIES = re.compile(r'self\.assertNumQueries\(\s*\d+ if connection\.vendor == "mysql" else \d+\s*\)')


def run_tasks_db(python: Path) -> Ran:
    """Run the classes that are about a backend and its worker; the others are left out, with the reason."""
    source = source_of(python, "django-tasks-db", VERSION) / "tests"

    def prepare(folder: Path) -> None:
        shutil.copytree(SHIM / "django_tasks_db", folder / "django_tasks_db")
        shutil.copy(SHIM / "exclusive.py", folder / "django_tasks_db" / "utils.py")
        shutil.copy(SHIM / "tasks.py", folder / "suite" / "tasks.py")

    return run(
        python,
        f"django-tasks-db {VERSION}, tests.py, by a shim",
        source,
        _changed,
        differences.TASKS_DB,
        package="suite",
        apps=("suite", "django_tasks_db"),
        queues=("default", "queue-1"),
        prepare=prepare,
        left_out=differences.TASKS_DB_LEFT_OUT,
    )


def _changed(text: str) -> str:
    text = _QUERIES.sub("contextlib.nullcontext()", text)
    text = text.replace("from tests import tasks", "from suite import tasks").replace('"tests.tasks.', '"suite.tasks.')
    # An id is a number here; what else those tests look at stays.
    text = text.replace("self.assertEqual(uuid.UUID(result.id).version, 4)", "self.assertTrue(result.id.isdecimal())")
    return text.replace("path=tests.tasks.", "path=suite.tasks.")
