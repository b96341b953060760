"""The shape of a payload: which fields it has, of which kind, and what stands in them, as far as people may see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from jobqueue.operations import write_path
from jobqueue.redaction import mask_json

from .wording import shortened

SHOWN: Final = 40
DEEPEST: Final = 6
VALUE_CHARACTERS: Final = 80
KINDS: Final[dict[type, Any]] = {
    str: pgettext_lazy("JSON", "text"),
    bool: _("true or false"),
    int: _("whole number"),
    float: pgettext_lazy("JSON", "number"),
    type(None): _("nothing (null)"),
}


class Field(NamedTuple):
    """One field of a payload: its path, its kind in words, and its value cut to a line, secrets hidden."""

    path: str
    kind: str
    value: str


def shape(text: str) -> tuple[list[Field], bool]:
    """Return (the fields of a JSON text in their order, whether there are more); of a list its first item only."""
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return [], True
    found: list[Field] = []
    for field in _fields(payload, mask_json(payload), ()):
        if len(found) == SHOWN:
            return found, True
        found.append(field)
    return found, False


def _fields(value: Any, shown: Any, path: tuple[str | int, ...]) -> Iterator[Field]:
    if path:
        yield Field(write_path(path), kind_of(value), _line(value, shown))
    # What is hidden as a whole is a text here, whatever it is in the payload.
    if len(path) >= DEEPEST or type(value) is not type(shown):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, shown[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from _fields(value[0], shown[0], (*path, 0))


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value in words."""
    if isinstance(value, list):
        return ngettext("list of %d item", "list of %d items", len(value)) % len(value)
    if isinstance(value, dict):
        return ngettext("object of %d field", "object of %d fields", len(value)) % len(value)
    return str(KINDS[type(value)])


def _line(value: Any, shown: Any) -> str:
    if isinstance(shown, (dict, list)):
        return ""
    if isinstance(shown, str):
        return shortened(shown, VALUE_CHARACTERS) if shown.strip() else gettext("(empty)")
    return json.dumps(shown)
