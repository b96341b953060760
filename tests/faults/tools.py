"""Programs of Debian's that scenarios need: found, installed by root, or a reason to skip - never with CI=true."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

PACKAGES = {  # tool -> (Debian package, where the program or library lies when it is not on PATH)
    "pgbouncer": ("pgbouncer", "/usr/sbin/pgbouncer"),
    "postgresql-15": ("postgresql-15", "/usr/lib/postgresql/15/bin/postgres"),
    "libfaketime": ("libfaketime", "/usr/lib/*/faketime/libfaketime.so.1"),
    "ip": ("iproute2", "/usr/sbin/ip"),
    "openssl": ("openssl", "/usr/bin/openssl"),
}


def need(tool: str) -> str:
    """Return the path of a tool of PACKAGES; skip the scenario where it is missing, or fail it with CI=true."""
    path = _found(tool) or _installed(tool)
    if not path:
        missing(f"{tool} is missing: apt-get install {PACKAGES[tool][0]}")
    return path


def missing(reason: str) -> NoReturn:
    """Skip the scenario for something the machine lacks, or fail it with CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true never skips)")
    pytest.skip(reason)


def _found(tool: str) -> str | None:
    elsewhere = (str(path) for path in Path("/").glob(PACKAGES[tool][1].lstrip("/")))
    return shutil.which(tool) or next(elsewhere, None)


@cache
def _installed(tool: str) -> str | None:
    """Install the package; by root only. Tried once."""
    if os.geteuid() != 0:
        return None
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A server package would make and start a cluster of its own, on the usual port.
    if tool.startswith("postgresql"):
        settings = Path("/etc/postgresql-common/createcluster.conf")
        settings.parent.mkdir(parents=True, exist_ok=True)
        with settings.open("a") as file:
            file.write("create_main_cluster = false\n")
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", PACKAGES[tool][0]]):
        subprocess.run(["apt-get", *command], env=quiet, capture_output=True, check=False, timeout=300)
    return _found(tool)
