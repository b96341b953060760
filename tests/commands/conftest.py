"""Run a command and see what it printed and with which code it ended."""

from collections.abc import Callable
from io import StringIO
from typing import NamedTuple

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


class Ran(NamedTuple):
    """What a command did: its exit code, its output, and the line that manage.py would print for its error."""

    code: int
    out: str
    error: str


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Return the function that runs a command with its options as on the command line."""

    def run_command(*arguments: str) -> Ran:
        out = StringIO()
        try:
            call_command(*arguments, stdout=out)
        except CommandError as error:
            return Ran(error.returncode, out.getvalue(), str(error))
        except SystemExit as error:
            return Ran(int(error.code or 0), out.getvalue(), "")
        return Ran(0, out.getvalue(), "")

    return run_command
