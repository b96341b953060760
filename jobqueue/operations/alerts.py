"""What people change about alert rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from jobqueue.alerting import BUILT_IN, make_rule
from jobqueue.conf import get_settings
from jobqueue.models import Action, AlertRule

from .acting import User, check_permission, check_time, clean, logger, manager_of, name_of


def change_alert(
    name: str, *, actor: User | str, reason: str = "", using: str | None = None, **changes: Any
) -> AlertRule | None:
    """Change what people say of an alert rule, over what settings and environment say: the fields of an AlertRule.

    An empty field (None) leaves the word to the lower layers. Returns the row as it is now, None where nothing changed.
    What changed, from what to what, is kept with the action. Raises PermissionDenied, and ValueError for a rule that
    cannot be.
    """
    return _change("change_alert", name, actor, reason, using, changes)


def mute_alert(
    name: str,
    *,
    until: datetime | None,
    actor: User | str,
    reason: str = "",
    enabled: bool = True,
    using: str | None = None,
) -> bool:
    """Have nobody told of a rule's incidents until an instant; None: from now on they are told again.

    `enabled` is what holds for a rule that nobody has changed yet: its row has the last word on that, too. Returns
    whether anything changed. Raises PermissionDenied, and ValueError for a naive time and for a rule that cannot be.
    """
    if until is not None:
        check_time(until, "until")
    check_permission(actor, "change_alert", subject=f"alert:{name}")
    row = AlertRule.objects.using(manager_of(using).write_db).filter(name=name).first()
    if row is None and until is None:
        return False
    changes = {"muted_until": until} | ({"enabled": enabled} if row is None else {})
    action = "unmute_alert" if until is None else "mute_alert"
    return _change(action, name, actor, reason, using, changes) is not None


def _change(
    action: str, name: str, actor: User | str, reason: str, using: str | None, changes: Mapping[str, Any]
) -> AlertRule | None:
    check_permission(actor, action, subject=f"alert:{name}")
    alias = manager_of(using).write_db
    with transaction.atomic(using=alias):
        found = AlertRule.objects.using(alias).select_for_update().filter(name=name).first()
        row = found or AlertRule(name=name)
        told = {
            key: {"from": _plain(getattr(row, key)), "to": _plain(value)}
            for key, value in changes.items()
            if getattr(row, key) != value
        }
        if found is not None and not told:
            return None
        for key, value in changes.items():
            setattr(row, key, value)
        check_alert(name, definition=row.definition, threshold=row.threshold)
        row.save(using=alias, force_insert=found is None)
        Action.objects.using(alias).create(
            actor=name_of(actor),
            action=action,
            reason=clean(reason),
            job_ids=[],
            subject=f"alert:{name}",
            detail=told or None,
        )
    logger.info("action done action=%s actor=%s rule=%s", action, name_of(actor), name)
    return row


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def check_alert(name: str, *, definition: Any = None, threshold: Any = None) -> None:
    """Raise ValueError where these fields of an AlertRule, with what lies below them, make no rule."""
    known = get_settings().ALERTS
    if definition is None and name not in BUILT_IN and name not in known:
        raise ValueError(f"{name}: neither built in nor in the settings, so it needs a definition")
    lower = [known[name]] if name in known else []
    make_rule(name, *([] if definition is None else [definition]), *lower, *([] if threshold is None else [threshold]))
