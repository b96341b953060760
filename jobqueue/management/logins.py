"""Who calls a command, as the audit names them."""

from __future__ import annotations

import getpass


def login() -> str:
    """Return the login name of whoever calls."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"
