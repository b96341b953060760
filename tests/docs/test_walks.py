"""The quickstart and the tutorial, followed word by word, end where they say.

Here the packages of this checkout's environment are taken. With WALK_INSTALLS=1 the reader makes an environment and
installs the package into it by its path, as the page says; that takes a minute and asks the package index.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from playwright.sync_api import sync_playwright
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobqueue.states import Status
from project import postgres_programs
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.docs.pages import ROOT
from tests.docs.walking import Reader, steps

DOCS = ROOT / "docs"
INSTALLS = os.environ.get("WALK_INSTALLS") == "1"
# What the package is made of; pip leaves files where it builds, so it gets a copy.
PACKAGE = ["jobqueue", "setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"]

# What a reader of the quickstart has already.
BEFORE = ("python3 -m venv .venv", ". .venv/bin/activate", "python -m pip install 'django>=5.2'",
          "django-admin startproject mysite .", "python manage.py startapp shop")  # fmt: skip
# Those of the page: the package's own tell people of a dead letter.
JOBS = "SELECT id, status FROM jobqueue_job WHERE job_type LIKE 'shop.%' ORDER BY id"
PENDING, DONE, CANCELLED = Status.PENDING, Status.DONE, Status.CANCELLED


def server() -> dict[str, str]:
    """Return PostgreSQL's variables for the server of the tests."""
    database = settings.DATABASES["default"]
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    return {variable: str(database[name]) for variable, name in names.items() if database[name]}


def query(database: str, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    login = {name.removeprefix("PG").lower(): value for name, value in server().items()}
    with psycopg.connect(make_conninfo(dbname=database, **login), autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture
def database() -> Iterator[str]:
    """Return the name of a database that the page makes, and drop it afterwards."""
    name = f"walk_{os.getpid()}"
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)).as_string()
    query("postgres", drop)
    yield name
    query("postgres", drop)


@pytest.fixture
def reader(tmp_path: Path, database: str) -> Iterator[Reader]:
    """Return somebody with an empty folder beside a copy of the package."""
    if not CHROMIUM.exists() and os.environ.get("CI") != "true":
        pytest.skip(f"no browser at {CHROMIUM}: apt-get install chromium")
    package, folder = tmp_path / "jobqueue", tmp_path / "tutorial"
    for each in (package, folder):
        each.mkdir()
    for name in PACKAGE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, package / name)
    own = [] if INSTALLS else [str(Path(sys.executable).parent)]
    path = [*own, os.environ["PATH"], str(postgres_programs.installed_folder())]
    environment = {"PATH": os.pathsep.join(path), "HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    environment |= {
        name: text for name, text in os.environ.items() if name.startswith("PIP_") or "_proxy" in name.lower()
    }
    environment |= server() | ({} if INSTALLS else {"PYTHONPATH": str(package)})
    port = free_port()
    instead = {
        "createdb tutorial": f"createdb {database}",
        '"NAME": "tutorial"': f'"NAME": "{database}"',
        "manage.py runserver": f"manage.py runserver --noreload {port}",
        "127.0.0.1:8000": f"127.0.0.1:{port}",
    }
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        one = Reader(folder, environment, instead, chromium.new_page(), installed=not INSTALLS)
        try:
            yield one
        finally:
            one.close()
            chromium.close()


def test_the_tutorial_ends_with_a_repaired_dead_letter(reader: Reader, database: str) -> None:
    reader.follow(DOCS / "tutorial.md")

    assert reader.terminals == []
    assert query(database, JOBS) == [(1, DONE), (2, DONE)]
    assert query(database, "SELECT order_id, total::text FROM shop_invoice ORDER BY 1") == [(1, "37.50"), (2, "25.00")]
    assert query(database, "SELECT actor, action FROM jobqueue_action") == [("ann", "retry")]


def test_the_quickstart_ends_with_its_jobs_run_and_one_put_back(reader: Reader, database: str) -> None:
    for line in (*BEFORE, f"createdb {database}"):
        reader.type(line)
    settings_file = reader.folder / "mysite" / "settings.py"
    entry = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": database}}
    settings_file.write_text(f"{settings_file.read_text()}\nDATABASES = {entry}\n")

    reader.follow(DOCS / "quickstart.md")

    told = reader.all_printed
    assert "None\n" in told
    assert "FileNotFoundError" in told
    assert "1 put back, 0 refused." in told
    assert query(database, JOBS) == [(1, DONE), (2, PENDING), (3, CANCELLED), (4, DONE)]


@pytest.mark.parametrize("page", ["tutorial.md", "quickstart.md"])
def test_every_kind_of_step_is_one_that_the_reader_knows(page: str) -> None:
    kinds = {step.kind for step in steps(DOCS / page)}

    assert {kind for kind in kinds if not hasattr(Reader, f"do_{kind}")} == set()
    assert kinds >= {"sh", "python", "text"}
