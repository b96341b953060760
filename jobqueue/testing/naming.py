"""What a test may name a job type by: its name, the handler that @job made, a task (django.tasks, Celery's names)."""

from __future__ import annotations

from typing import Any

Named = Any
"""A job type's name, or what has one: see name_of()."""


def name_of(what: Named) -> str:
    """Return the job type. A task of django.tasks is named by its path. Raises TypeError for what has no name."""
    name = what if isinstance(what, str) else getattr(what, "module_path", None) or getattr(what, "name", None)
    if not isinstance(name, str):
        msg = f"a job type is a name or a handler, not {what!r}"
        raise TypeError(msg)
    return name
