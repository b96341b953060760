"""One change of one field that many payloads have: what it makes of each, and why it makes nothing of another.

Python decides whether a payload changes and whether the new one may be enqueued; the database then changes the field
in place (sql/edit_payloads.sql), so that no digit of a number elsewhere in the payload is rounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from jobqueue.redaction import is_secret, mask_json, mask_text

from .field_paths import Step, write_path

KINDS: Final = ("set", "rename", "remove", "replace")
#: A value above this is edited by code: it would be kept with every batch.
VALUE_CHARACTERS: Final = 10_000


class NoEdit(Exception):
    """A payload does not change; the message is the reason, worded alike for all payloads that have it."""


class Edited(NamedTuple):
    """What becomes of a payload: the whole, and the JSON text of the field's new value (None: it goes or moves)."""

    payload: dict[str, Any]
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEdit:
    """Set a field to `value`, rename it to `name`, remove it, or replace `find` by `by` in its text."""

    kind: str
    path: tuple[Step, ...]
    value: Any = None
    name: str = ""
    find: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what is no edit, or would show or probe what is hidden."""
        if self.kind not in KINDS or not self.path:
            raise ValueError(f"an edit is one of {', '.join(KINDS)}, of a field")
        if self.kind == "rename" and (not self.name or "\x00" in self.name or self.name == self.path[-1]):
            raise ValueError("a field is renamed to another name")
        if self.kind == "rename" and isinstance(self.path[-1], int):
            raise ValueError("an item of a list has no name")
        if self.kind == "replace" and not self.find:
            raise ValueError("no text is named that is to be replaced")
        # A new name could show what the old one hides, and what can be replaced can be guessed.
        if self.kind in ("rename", "replace") and self.is_hidden:
            raise ValueError("a hidden field can be set or removed, not renamed nor replaced in")
        if self.kind == "rename" and is_secret(self.name):
            raise ValueError("a field that is renamed so would be hidden: remove it, or set the other")

    @property
    def is_hidden(self) -> bool:
        """Tell whether the field's values are hidden from people (redaction)."""
        return any(isinstance(step, str) and is_secret(step) for step in self.path)

    @property
    def field(self) -> str:
        """The field as people write it."""
        return write_path(self.path)

    @property
    def to_path(self) -> tuple[Step, ...]:
        """Where the field is afterwards."""
        return (*self.path[:-1], self.name) if self.kind == "rename" else self.path

    def to_json(self) -> dict[str, Any]:
        """Return the edit as JSON holds it."""
        return asdict(self) | {"path": list(self.path)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> FieldEdit:
        """Return the edit that to_json() wrote. Raises TypeError and ValueError for anything else."""
        return cls(**{**values, "path": tuple(values["path"])})

    def apply(self, payload: dict[str, Any]) -> Edited:
        """Return what becomes of a payload, which stays as it is. Raises NoEdit."""
        root, parent = _open(payload, self.path)
        last: Any = self.path[-1]
        there = last in parent if isinstance(parent, dict) else 0 <= last < len(parent)
        if not there and (self.kind != "set" or isinstance(parent, list)):
            raise NoEdit("has no such field")
        if self.kind in ("set", "replace"):
            new = self.value if self.kind == "set" else self._replaced(parent[last])
            if there and same(parent[last], new) and not self._may_probe(parent[last]):
                raise NoEdit("has that value already")
            parent[last] = new
            return Edited(root, json.dumps(new, ensure_ascii=False))
        old = parent.pop(last)
        if self.kind == "rename":
            if self.name in parent:
                raise NoEdit("has a field of the new name already")
            parent[self.name] = old
        return Edited(root, None)

    def _may_probe(self, old: Any) -> bool:
        """Tell whether "has that value already" would confirm a guess at what is hidden."""
        return self.is_hidden or mask_json(old) != old

    def _replaced(self, old: Any) -> str:
        if not isinstance(old, str):
            raise NoEdit("has no text there")
        if mask_text(old) != old:  # first: what is found in it tells what is hidden
            raise NoEdit("has hidden values in that text")
        if self.find not in old:
            raise NoEdit("does not have that text")
        return old.replace(self.find, self.by)


def _open(payload: dict[str, Any], path: Sequence[Step]) -> tuple[dict[str, Any], Any]:
    """Return a copy of the payload, as deep as the path goes, and the container in it that holds the field."""
    if isinstance(path[0], int):
        raise NoEdit("has no such field")
    root: dict[str, Any] = dict(payload)
    at: Any = root
    for step, following in pairwise(path):
        inner = at.get(step) if isinstance(at, dict) else at[step] if int(step) < len(at) else None
        wanted = list if isinstance(following, int) else dict
        if not isinstance(inner, wanted):
            raise NoEdit("has no such field")
        at[step] = at = wanted(inner)
    return root, at


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to JSON, where 1, 1.0 and true are three."""
    if type(one) is not type(other):
        return False
    if isinstance(one, str):  # most fields, and the quickest
        return bool(one == other)
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def nested(path: Sequence[Step], text: str) -> str:
    """Return a JSON text within the names of its path: whoever shows it then sees what is to be hidden."""
    for step in reversed(path):
        name = step if isinstance(step, str) else f"[{step}]"
        text = f"{{{json.dumps(name, ensure_ascii=False)}: {text}}}"
    return text
