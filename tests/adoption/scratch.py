"""A new project in an environment of its own, outside this repository, that adds jobqueue as the README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .building import ROOT

SHOP: Final = Path(__file__).with_name("shop")
# What the README tells to write into the settings; the rest is what every project has anyway.
SETTINGS: Final = """
ROOT_URLCONF = "shop.urls"
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", **{database!r}}}}}
INSTALLED_APPS += ["shop"]

INSTALLED_APPS += ["django.contrib.postgres", "jobqueue"]

JOBQUEUE = {{}}
"""
# With deprecations as errors: none may come from importing and using the package in a plain project.
STEPS: Final = (
    "check",
    "migrate --verbosity 0",
    "check --database default",
    "makemigrations --check --dry-run",
    "visit buy",
    "runworker --drain",
    "visit admin",
    "jobqueue_ops --json",
    "jobqueue_health",
    "jobqueue_prune --dry-run",
)
HIDDEN: Final = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH", "VIRTUAL_ENV", "JOBQUEUE_TOLD")


class StepFailed(Exception):
    """A step of the scenario ended with an error; the text has its last lines."""


def lowest_requirements() -> list[str]:
    """Return each requirement and extra of setup.cfg, but the demo's, at the lowest version that it allows."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"].split()
    for extra, names in config["options.extras_require"].items():
        lines += names.split() if extra != "demo" else []
    return sorted({line.replace(">=", "==") for line in lines})


class Scratch:
    """One environment and one project in it. Every step raises StepFailed where it ends with an error."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.site = folder, folder / "site"
        self._run([python, "-m", "venv", str(folder / "venv")], folder)
        self.python = str(folder / "venv" / "bin" / "python")

    def install(self, *requirements: str) -> None:
        """Install with pip, from wherever this machine's pip installs from."""
        self._run(
            [self.python, "-m", "pip", "--disable-pip-version-check", "-q", "install", *requirements], self.folder
        )

    def versions(self) -> str:
        """Tell what was installed."""
        code = (
            "import sys, django, psycopg; print(f'Python {sys.version.split()[0]}, Django {django.get_version()},"
            " psycopg {psycopg.__version__} ({psycopg.pq.__impl__})')"
        )
        return self._run([self.python, "-c", code], self.folder).strip()

    def start_project(self, conninfo: str) -> None:
        """Make the project, with the app `shop` and the three lines of settings."""
        self.site.mkdir()
        self._run([self.python, "-m", "django", "startproject", "config", "."], self.site)
        shutil.copytree(SHOP, self.site / "shop", ignore=shutil.ignore_patterns("__pycache__"))
        given = conninfo_to_dict(conninfo)
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        database = {name: given[key] for name, key in names.items() if given.get(key)}
        with (self.site / "config" / "settings.py").open("a") as settings:
            settings.write(SETTINGS.format(database=database))

    def manage(self, command: str) -> str:
        """Run a command of manage.py; returns what it printed."""
        return self._run([self.python, "-W", "error::DeprecationWarning", "manage.py", *command.split()], self.site)

    def _run(self, command: list[str], folder: Path) -> str:
        env = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        done = subprocess.run(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            told = "\n".join(done.stdout.splitlines()[-30:])
            raise StepFailed(f"{' '.join(command)}: exit code {done.returncode}\n{told}")
        return done.stdout


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Make an empty database beside the one that a URL names; gives its conninfo and drops it again."""
    name = f"adoption_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def version_of(python: str) -> str:
    """Return the version of an interpreter, as "3.13"."""
    told = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.\d+", told)
    return found[0] if found else sys.version[:4]
