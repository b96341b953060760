"""What an edit of one field would do to a set of dead letters: how many have the field, and how some of them change."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import connections
from django.db.models import F, Func, JSONField, Q, TextField, Value
from django.db.models.functions import Cast

from jobqueue.operations import FieldEdit, NoEdit, judge_payload
from jobqueue.ops.limited import read_within

from . import masking
from .base import job_url
from .search_terms import shown_text
from .why_not import why_not

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from jobqueue.models import Job

LIMIT: Final = timedelta(milliseconds=1_500)
#: So many of the newest jobs that have the field are tried out.
TRIED: Final = 50
EXAMPLES: Final = 3
#: A larger payload is not shown.
SHOWN_BYTES: Final = 65_536
PRETTY: Final = """
SELECT jsonb_pretty(each::jsonb) FROM unnest(%s::text[]) WITH ORDINALITY AS texts (each, place) ORDER BY place
"""


class Example(NamedTuple):
    """A job and what changes in its payload."""

    job_id: int
    url: str
    changes: list[masking.Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPreview:
    """How many jobs of a set have the field (None: not counted in time), and how those that were tried fared."""

    matching: int | None
    tried: int = 0
    fitting: int = 0  # of those that were tried
    refused: list[tuple[str, int]] = field(default_factory=list)  # why others would stay as they are
    examples: list[Example] = field(default_factory=list)


def preview_edit(edit: FieldEdit, rows: QuerySet[Job], *, sees_hidden: bool) -> FieldPreview:
    """Look at a set within limits of time; nothing is changed."""
    using, having = rows.db, matching(edit, rows, sees_hidden=sees_hidden)
    found = read_within(using, lambda: having.order_by().values("pk").count(), LIMIT)
    small = having.filter(payload_bytes__lte=SHOWN_BYTES).order_by("-pk")
    tried = read_within(
        using,
        lambda: list(small.annotate(_text=Cast("payload", TextField())).values_list("pk", "job_type", "_text")[:TRIED]),
        LIMIT,
    )
    refused: Counter[str] = Counter()
    pairs: list[tuple[int, str, str]] = []
    for job_id, job_type, text in tried or ():
        try:
            whole, _value = judge_payload(edit, job_type, text)
        except NoEdit as why:
            refused[str(why)] += 1
        else:
            pairs.append((job_id, text, json.dumps(whole, ensure_ascii=False)))
    return FieldPreview(
        matching=found,
        tried=len(tried or ()),
        fitting=len(pairs),
        refused=[(why_not(why), jobs) for why, jobs in refused.most_common(EXAMPLES)],
        examples=_examples(pairs[:EXAMPLES], using),
    )


def matching(edit: FieldEdit, rows: QuerySet[Job], *, sees_hidden: bool) -> QuerySet[Job]:
    """Return the jobs of a set that have what the edit changes, as far as the person may find that out."""
    path = [str(step) for step in edit.path]
    if edit.kind == "set" and isinstance(edit.path[-1], str):
        container = _at(path[:-1])
        return rows.annotate(_kind=_kind(container)).filter(_kind="object")
    having = rows.annotate(_kind=_kind(_at(path))).filter(_kind__isnull=False)
    if edit.kind == "replace":
        text = Func(F("payload"), *map(Value, path), function="jsonb_extract_path_text", output_field=TextField())
        texts, shown = having.filter(_kind="string"), shown_text(text, sees_hidden=sees_hidden)
        # What is hidden in a text is not to be found out letter by letter, by how many have it.
        return texts if shown is None else texts.annotate(_field=shown).filter(Q(_field__contains=edit.find))
    return having


def _at(path: list[str]) -> Any:
    if not path:
        return F("payload")
    return Func(F("payload"), *map(Value, path), function="jsonb_extract_path", output_field=JSONField())


def _kind(value: Any) -> Func:
    return Func(value, function="jsonb_typeof", output_field=TextField())


def _examples(pairs: list[tuple[int, str, str]], using: str) -> list[Example]:
    texts = [text for _job_id, *both in pairs for text in both]
    with connections[using].cursor() as cursor:
        cursor.execute(PRETTY, [texts])
        lines = [masking.masked_lines(row[0]) for row in cursor.fetchall()]
    return [
        Example(job_id, job_url(job_id), masking.difference(lines[2 * place], lines[2 * place + 1]))
        for place, (job_id, _before, _after) in enumerate(pairs)
    ]
