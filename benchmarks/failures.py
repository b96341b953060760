"""What may break a measurement off: it costs the row that it is of, and never those that come after it."""

from __future__ import annotations

import subprocess

import psutil
import psycopg
from django.db import Error as DjangoError

# The exactly-once checks are assertions; a peer, a worker, a client or the server may bring about all the others.
BROKEN_OFF = (
    *(AssertionError, ArithmeticError, LookupError, OSError, RuntimeError, ValueError),
    *(subprocess.SubprocessError, psutil.Error, psycopg.Error, DjangoError),
)


def in_a_line(error: BaseException) -> str:
    """Return the first and the last line of an error's text, which may have a log in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else type(error).__name__
