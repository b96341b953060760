"""What people change about alert rules."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from jobqueue.alerting import BUILT_IN, make_rule
from jobqueue.conf import get_settings
from jobqueue.models import Action, AlertRule

from .acting import User, check_permission, clean, logger, manager_of, name_of


def change_alert(
    name: str, *, actor: User | str, reason: str = "", using: str | None = None, **changes: Any
) -> AlertRule | None:
    """Change what people say of an alert rule, over what settings and environment say: the fields of an AlertRule.

    An empty field (None) leaves the word to the lower layers. Returns the row as it is now, None where nothing changed.
    Raises PermissionDenied, and ValueError for a rule that cannot be.
    """
    check_permission(actor, "change_alert")
    alias = manager_of(using).write_db
    with transaction.atomic(using=alias):
        found = AlertRule.objects.using(alias).select_for_update().filter(name=name).first()
        row = found or AlertRule(name=name)
        told = [f"{key}: {getattr(row, key)} → {value}" for key, value in changes.items() if getattr(row, key) != value]
        if found is not None and not told:
            return None
        for key, value in changes.items():
            setattr(row, key, value)
        check_alert(name, definition=row.definition, threshold=row.threshold)
        row.save(using=alias, force_insert=found is None)
        why = "; ".join([*([reason] if reason else []), *told])
        Action.objects.using(alias).create(
            actor=name_of(actor), action="change_alert", reason=clean(why), job_ids=[], subject=f"alert:{name}"
        )
    logger.info("action done action=change_alert actor=%s rule=%s", name_of(actor), name)
    return row


def check_alert(name: str, *, definition: Any = None, threshold: Any = None) -> None:
    """Raise ValueError where these fields of an AlertRule, with what lies below them, make no rule."""
    known = get_settings().ALERTS
    if definition is None and name not in BUILT_IN and name not in known:
        raise ValueError(f"{name}: neither built in nor in the settings, so it needs a definition")
    lower = [known[name]] if name in known else []
    make_rule(name, *([] if definition is None else [definition]), *lower, *([] if threshold is None else [threshold]))
