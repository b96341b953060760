"""Change one field in the payloads of many dead letters, and put them back: what one edit repairs for a whole group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction
from django.db.models import JSONField, Value
from django.db.models.functions import Cast

from jobqueue import sql
from jobqueue.exceptions import JobQueueError
from jobqueue.models import Action

from .acting import Report, Targets, User, batches, check_permission, clean, logger, manager_of, name_of
from .field_edits import FieldEdit, NoEdit, nested
from .jobs import check_spread, default_spread
from .repairing import check_payload

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

#: Payloads of so many bytes are read, changed and audited at once; a larger one is alone.
BATCH_BYTES: Final = 4 * 1024 * 1024
WHY_CHARACTERS: Final = 200


def edit_field(
    targets: Targets,
    edit: FieldEdit,
    *,
    actor: User | str,
    reason: str = "",
    retry: bool = True,
    spread: timedelta | None = None,
    subject: str = "",
    using: str | None = None,
) -> Report:
    """Change one field in the payloads of dead letters; those that changed are put back as retry() does.

    Each new payload is checked as an enqueue checks it; jobs without the field, or whose payload would not pass, are
    refused with the reason and stay as they are. `retry=False` only saves. What the field held is kept for each job in
    the audit (Action.detail), in the transaction of its batch. A job that was edited and cannot be put back stays
    edited, and is refused as `was edited, but is blocked by #id`.

    Raises PermissionDenied (it needs the permissions to edit and to retry), and ValueError for a negative spread.
    """
    check_permission(actor, "edit_field")
    check_permission(actor, "retry")
    check_spread(spread)
    manager, report = manager_of(using), Report()
    audit = {"actor": name_of(actor), "action": "edit_field", "reason": clean(reason), "subject": clean(subject)}
    for ids, seen in batches(targets, manager, report):
        slowly = default_spread(seen) if spread is None else spread
        for part in _parts(manager, ids):
            with transaction.atomic(using=manager.write_db):
                _edit(manager, part, edit, slowly if retry else None, audit, report)
    logger.info(
        "action done action=edit_field actor=%s field=%s changed=%s refused=%s",
        *(audit["actor"], edit.field, len(report.changed), len(report.refused)),
    )
    return report


def judge_payload(edit: FieldEdit, job_type: str, payload: str) -> tuple[dict[str, Any], str | None]:
    """Return (the whole new payload, the JSON of the field's new value or None) of a payload; raises NoEdit."""
    try:
        known = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise NoEdit("has a payload that Python cannot read") from error
    edited = edit.apply(known)
    try:
        check_payload(job_type, edited.payload)
    except JobQueueError as error:
        raise NoEdit(f"would be refused: {clean(str(error))[:WHY_CHARACTERS]}") from error
    return edited.payload, edited.value


@dataclass(slots=True)
class _Batch:
    """The edits of one batch, as the manager asks for them (managers.rows.PayloadEdit)."""

    edit: FieldEdit
    put_back: bool
    before: dict[int, str | None] = field(default_factory=dict)
    fresh: dict[int, str | None] = field(default_factory=dict)

    def judge(self, job_id: int, job_type: str, payload: str, fresh: dict[int, str | None]) -> str | None:
        try:
            _whole, fresh[job_id] = judge_payload(self.edit, job_type, payload)
        except NoEdit as why:
            return str(why)
        self.fresh[job_id] = fresh[job_id]
        return None

    def detail(self, changed: Sequence[int]) -> str:
        """Return the JSON text of what was there and what is: as text, for Python would round what jsonb keeps."""
        jobs = ", ".join(f'"{job_id}": {{{", ".join(self._from_and_to(job_id))}}}' for job_id in changed)
        told: dict[str, Any] = {"edit": self.edit.kind, "field": self.edit.field, "put_back": self.put_back}
        if self.edit.kind == "rename":
            told["to"] = self.edit.name
        return f'{json.dumps(told, ensure_ascii=False)[:-1]}, "jobs": {{{jobs}}}}}'

    def _from_and_to(self, job_id: int) -> Iterator[str]:
        before, after = self.before[job_id], self.fresh[job_id]
        if before is not None:
            yield f'"from": {nested(self.edit.path, before)}'
        if after is not None:
            yield f'"to": {nested(self.edit.path, after)}'


def _parts(manager: JobManager, ids: list[int]) -> Iterator[list[int]]:
    """Yield the ids in portions whose payloads fit into the memory, and what is kept of them into a row."""
    sizes: dict[int, int] = dict(manager.run_sql(sql.PAYLOAD_SIZES, {"ids": ids}))
    part: list[int] = []
    room = BATCH_BYTES
    for job_id in ids:
        room -= sizes.get(job_id, 0)
        if part and room < 0:
            yield part
            part, room = [], BATCH_BYTES - sizes.get(job_id, 0)
        part.append(job_id)
    if part:
        yield part


def _edit(
    manager: JobManager,
    ids: list[int],
    edit: FieldEdit,
    spread: timedelta | None,
    audit: dict[str, str],
    report: Report,
) -> None:
    batch = _Batch(edit, put_back=spread is not None)
    path, to = [str(step) for step in edit.path], [str(step) for step in edit.to_path]
    moved = manager.edit_payloads(ids, batch, path=path, to=to)
    changed = sorted(moved.changed)
    report.refused |= moved.refused
    if not changed:
        return
    detail = Cast(Value(batch.detail(changed)), JSONField())
    Action.objects.using(manager.write_db).create(**audit, job_ids=changed, detail=detail)
    back = None if spread is None else manager.redrive(changed, spread=spread)
    if back is not None:
        report.refused |= {job_id: f"was edited, but {_as_verb(why)}" for job_id, why in back.refused.items()}
    report.changed += changed if back is None else sorted(back.changed)


def _as_verb(why: str) -> str:
    return f"is {why}" if why.startswith("blocked") else why
