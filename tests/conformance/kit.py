import json
import os
import subprocess
import sys
from typing import Any

TOY = (
    "--tasks-settings=tests.conformance.toy.settings",
    "--tasks-drain=python:tests.conformance.toy.draining.drain",
)


def kit(*arguments: str, module: str = "tests.conformance.runs", **variables: str) -> Any:
    """Run the kit in a process of its own, and return what it found: names by how they ended, for each backend."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    for name in [name for name in environment if name.startswith(("PYTEST_XDIST", "PYTEST_ADDOPTS"))]:
        del environment[name]
    ran = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return json.loads(ran.stdout)
