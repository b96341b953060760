"""Hide secrets in JSON as the database prints it, line by line, and put them back into what a person edited.

jsonb_pretty() writes one member a line, so a page can cut its text anywhere and still mask it: neither megabytes need
to be read for a preview, nor does a number pass through Python and lose digits. What is hidden is what
jobqueue.redaction hides.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from jobqueue.redaction import MASK, is_secret, mask_text

_MEMBER: Final = re.compile(r'( *)(?:("(?:[^"\\]|\\.)*"): )?(.*)', re.DOTALL)
_CLOSING: Final = {"{": "}", "[": "]"}
_PLAIN: Final = ("null", "true", "false")
#: Lines that are the same are shown so many before and after a change.
CONTEXT: Final = 3
#: Two parts are compared line by line where the product of their lengths is at most this: a page must not take long.
COMPARED: Final = 40_000


class Line(NamedTuple):
    """A line as it is shown, and what it stands for: a hidden object has several lines."""

    raw: str
    shown: str


class NotJson(ValueError):
    """What a person typed is no JSON object; the text says where."""


class Misplaced(ValueError):
    """A hidden value stands where none was, so nobody knows which one is meant; the text is its path."""


def masked(text: str) -> str:
    """Return a text of jsonb_pretty(), which may be cut off, with every secret hidden."""
    return "\n".join(line.shown for line in masked_lines(text))


def masked_lines(text: str) -> list[Line]:
    """Return the lines of a text of jsonb_pretty(), which may be cut off, with every secret hidden."""
    return list(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[Line]:
    at = 0
    while at < len(lines):
        match = _MEMBER.fullmatch(lines[at])
        assert match is not None  # every part may be empty
        indent, key, value = match.groups()
        if key is None or not is_secret(json.loads(key)):
            yield Line(lines[at], f"{indent}{'' if key is None else f'{key}: '}{_open(value)}")
            at += 1
            continue
        end = _end_of(lines, at, indent, value)
        comma = "," if lines[end - 1].endswith(",") else ""
        hidden = value if value.removesuffix(",") in _PLAIN else f'"{MASK}"{comma}'
        yield Line("\n".join(lines[at:end]), f"{indent}{key}: {hidden}")
        at = end


def _end_of(lines: list[str], at: int, indent: str, value: str) -> int:
    """Return behind which line a member ends; what was cut off is hidden to the last."""
    if value not in _CLOSING:
        return at + 1
    closing = indent + _CLOSING[value]
    for end in range(at + 1, len(lines)):
        if lines[end].removesuffix(",") == closing:
            return end + 1
    return len(lines)


def _open(value: str) -> str:
    """Return a value whose name is no secret, with the secrets within its text hidden."""
    if not value.startswith('"'):
        return value
    comma = "," if value.endswith('",') else ""
    try:
        text = json.loads(value.removesuffix(","))
    except ValueError:  # cut off
        return mask_text(value)
    hidden = mask_text(text)
    return value if hidden == text else json.dumps(hidden, ensure_ascii=False) + comma


def parse(text: str) -> Any:
    """Return the value of a JSON text that a person typed; raises NotJson for what the database would not take so."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} (line {error.lineno}, column {error.colno})") from error
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error
    except ValueError as error:
        raise NotJson(str(error)) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotJson(f"the name {twice!r} stands twice in one object")
    return found


def _refuse(name: str) -> Any:
    raise NotJson(f"{name} is no JSON number")


def restored(edited: Any, shown: Any, original: Any) -> Any:
    """Return what a person edited with the hidden values put back where they stood.

    `shown` is `original` as it was shown. Within a list only an item that was left alone is put back: another one may
    have been moved there. Raises Misplaced for a mask that stands elsewhere.
    """
    return edited if _same(shown, original) else _restored(edited, shown, original, "$")


def _restored(edited: Any, shown: Any, original: Any, path: str) -> Any:
    if _same(edited, shown):
        return original
    if isinstance(edited, dict):
        known = isinstance(shown, dict) and isinstance(original, dict)
        return {
            key: _restored(value, shown[key], original[key], f"{path}.{key}")
            if known and key in shown
            else unhidden(value, f"{path}.{key}")
            for key, value in edited.items()
        }
    if isinstance(edited, list) and isinstance(shown, list) and len(edited) == len(shown):
        return [
            original[place] if _same(item, shown[place]) else unhidden(item, f"{path}[{place}]")
            for place, item in enumerate(edited)
        ]
    return unhidden(edited, path)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to JSON, where 1, 1.0 and true are three."""
    return type(one) is type(other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def unhidden(value: Any, path: str = "$") -> Any:
    """Return a value in which nothing stands for something hidden. Raises Misplaced."""
    if isinstance(value, str) and MASK in value:
        raise Misplaced(path)
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        unhidden(item, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}")
    return value


class Change(NamedTuple):
    """A line of a diff: `kind` is "same", "gone", "new" or "skipped" (lines left out, which are all the same)."""

    kind: str
    text: str


def difference(before: list[Line], after: list[Line]) -> list[Change]:
    """Return what differs between two texts, by what their lines stand for, shown with the secrets hidden."""
    old, new = [line.raw for line in before], [line.raw for line in after]
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    changes = [Change("same", line.shown) for line in before[:start]]
    changes += _middle(before[start : len(before) - end], after[start : len(after) - end])
    changes += [Change("same", line.shown) for line in before[len(before) - end :]]
    return _condensed(changes)


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _middle(before: list[Line], after: list[Line]) -> list[Change]:
    """Compare what two texts do not share at their ends; much of it is shown whole, for comparing it takes too long."""
    blocks = [("replace", 0, len(before), 0, len(after))]
    if len(before) * len(after) <= COMPARED:
        old, new = [line.raw for line in before], [line.raw for line in after]
        blocks = list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    changes = []
    for tag, start, end, new_start, new_end in blocks:
        changes += [Change("same" if tag == "equal" else "gone", line.shown) for line in before[start:end]]
        if tag != "equal":
            changes += [Change("new", line.shown) for line in after[new_start:new_end]]
    return changes


def _condensed(changes: list[Change]) -> list[Change]:
    """Leave out what is far from any change, with one line that says so."""
    near: set[int] = set()
    for place, change in enumerate(changes):
        if change.kind != "same":
            near.update(range(place - CONTEXT, place + CONTEXT + 1))
    found: list[Change] = []
    for place, change in enumerate(changes):
        if place in near:
            found.append(change)
        elif not found or found[-1].kind != "skipped":
            found.append(Change("skipped", "…"))
    return found
