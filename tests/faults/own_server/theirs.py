"""A project of somebody else's on a private server: its databases, its `migrate`, its worker, and a day of its web."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import sql

from tests.faults.servers import PrivateServer
from tests.worker.conftest import Launch
from tests.worker.launching import ROOT, RunningWorker

SETTINGS = "tests.faults.own_server.their_settings"
#: What a day leaves: five orders, 50 looks, one each of a deferred, a flaky, a sleeping and a completed job; one dead.
DONE, DEAD = 59, 1
PAGE = ROOT / "docs" / "databases.md"
OURS = "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"


@dataclass
class Project:
    """One project; `databases` is its DATABASES, to be changed before anything runs."""

    server: PrivateServer
    launch: Launch
    environment: dict[str, str]
    name: str
    databases: dict[str, dict[str, Any]] = field(default_factory=dict)
    routers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make its database, and point `default` at it."""
        self.create_database(self.name)
        self.databases.setdefault("default", self.database())

    def create_database(self, name: str, owner: str | None = None) -> None:
        """Make an empty database, in the place of an older one."""
        for text in ("DROP DATABASE IF EXISTS {} WITH (FORCE)", "CREATE DATABASE {}"):
            self.server.execute(sql.SQL(text).format(sql.Identifier(name)).as_string())
        if owner:
            order = sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(owner))
            self.server.execute(order.as_string())

    def database(self, name: str | None = None, *, user: str = "postgres", **values: Any) -> dict[str, Any]:
        """Return an entry of DATABASES, by TCP whoever the role is."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name or self.name,
            "USER": user,
            "PASSWORD": self.server.password,
            "HOST": self.server.address,
            "PORT": self.server.port,
            **values,
        }

    def execute(self, statement: str, name: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement in its database, as superuser."""
        return self.server.execute(statement, database=name or self.name)

    def role(self, name: str) -> None:
        """Make a role that may log in and nothing else, in the place of an older one."""
        self.server.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)).as_string())
        self.server.create_role(name)

    def connections(self) -> int:
        """Count the connections to its database, whoever has them, without this one."""
        return int(self.execute(f"SELECT count(*) FROM pg_stat_activity {OURS}")[0][0])

    def env(self, **databases: dict[str, Any]) -> dict[str, str]:
        """Return the environment of its processes; other databases than the project's own by alias."""
        return {
            **self.environment,
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "THEIR_DATABASES": json.dumps(self.databases | databases),
            "THEIR_ROUTERS": ",".join(self.routers),
        }

    def run(self, *arguments: str, **databases: dict[str, Any]) -> str:
        """Run Python in the project; returns what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.env(**databases),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def migrate(self, *arguments: str, **databases: dict[str, Any]) -> None:
        """Run `manage.py migrate`."""
        self.run("manage.py", "migrate", "--verbosity", "0", *arguments, **databases)

    def worker(self, *arguments: str, **settings: Any) -> RunningWorker:
        """Start a worker of two children."""
        return self.launch("--processes", "2", *arguments, env=self.env() | settings.pop("env", {}), **settings)

    def tour(self, **databases: dict[str, Any]) -> dict[str, Any]:
        """Have its web processes do all they do in a day; returns what became of it (tour.py)."""
        told: dict[str, Any] = json.loads(self.run("-m", "tests.faults.own_server.tour", **databases).splitlines()[-1])
        return told


def well(told: dict[str, Any], *, left: tuple[int, int] = (1, 1), done: int = DONE) -> None:
    """Assert that a day went well; `left`: rows and jobs that a view leaves which fails after its enqueue."""
    wanted = {
        "left by a view that failed": list(left),
        "rolled back": 0,
        "ended": {"DONE": done + left[1], "DEAD": DEAD},
        "pages": {},
        "deeds": {},
        "machines": {},
        "commands": {},
    }
    assert {name: value for name, value in told.items() if value != wanted[name]} == {}
    assert told.keys() == wanted.keys()


def granted(role: str, name: str) -> list[str]:
    """Return the statements of the block of docs/databases.md that names a role, but CREATE ROLE, for other names."""
    text = next(block for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL) if role in block)
    statements = [statement.strip() for statement in text.replace("shop_", f"{name}_").split(";")]
    return [statement for statement in statements if statement and not statement.startswith("CREATE ROLE")]


def names_of(folder: Path) -> str:
    """Return a name for the database of a test, by its folder."""
    return "shop_" + "".join(letter if letter.isalnum() else "_" for letter in folder.name).lower()[:40]
