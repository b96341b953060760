"""What people take with them: a file of the audit is written down in the audit."""

from __future__ import annotations

from typing import Any

from jobqueue.models import Action

from .acting import User, check_permission, logger, manager_of, name_of


def export_audit(*, actor: User | str, filters: dict[str, Any], form: str, using: str | None = None) -> None:
    """Write down that somebody takes the audit, or what the filters leave of it, as a file. Raises PermissionDenied."""
    check_permission(actor, "export_audit")
    Action.objects.using(manager_of(using).write_db).create(
        actor=name_of(actor), action="export_audit", job_ids=[], detail={"format": form, "filters": filters}
    )
    logger.info("action done action=export_audit actor=%s", name_of(actor))
