"""Find every translatable string of jobqueue's sources.

What xgettext would find (a test compares, where it is installed), found without it: catalogues are made and judged on
any machine.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "jobqueue"
TEMPLATES = {".html", ".txt"}
# What each function's first arguments are.
FUNCTIONS = {
    "_": ("text",),
    "gettext": ("text",),
    "gettext_lazy": ("text",),
    "gettext_noop": ("text",),
    "ngettext": ("text", "plural"),
    "ngettext_lazy": ("text", "plural"),
    "pgettext": ("context", "text"),
    "pgettext_lazy": ("context", "text"),
    "npgettext": ("context", "text", "plural"),
    "npgettext_lazy": ("context", "text", "plural"),
}
# Calls within what Django's templatize() makes of a template, which is no valid Python.
LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
CALL = re.compile(rf"\b(_|n?p?gettext)\(({LITERAL}(?:,\s*{LITERAL})*)")


class Message(NamedTuple):
    """What one entry of a catalogue is about."""

    context: str | None
    text: str
    plural: str | None


def messages() -> dict[Message, set[str]]:
    """Return all messages, each with the files that have it."""
    found: dict[Message, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py":
            source = in_python(path.read_text())
        elif path.suffix in TEMPLATES:
            source = in_template(path.read_text())
        else:
            continue
        for message in source:
            found.setdefault(message, set()).add(path.relative_to(PACKAGE).as_posix())
    return merged(found)


def in_python(code: str) -> Iterator[Message]:
    """Yield the messages of a module; an argument that is no literal cannot be translated, so it raises ValueError."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name in FUNCTIONS:
                arguments = node.args[: len(FUNCTIONS[name])]
                if name == "_" and not arguments:
                    continue
                yield _message(name, [ast.literal_eval(argument) for argument in arguments])


def in_template(text: str) -> Iterator[Message]:
    """Yield the messages of a template."""
    for name, arguments in CALL.findall(templatize(text)):
        yield _message(name, [ast.literal_eval(literal.lstrip("u")) for literal in re.findall(LITERAL, arguments)])


def merged(found: dict[Message, set[str]]) -> dict[Message, set[str]]:
    """Return the messages with those that others have with a plural taken into these, as gettext looks them up."""
    plurals = {(each.context, each.text): each for each in found if each.plural is not None}
    result: dict[Message, set[str]] = {}
    for message, files in found.items():
        result.setdefault(plurals.get((message.context, message.text), message), set()).update(files)
    return result


def _message(name: str, arguments: list[str]) -> Message:
    parts = dict(zip(FUNCTIONS[name], arguments, strict=False))
    return Message(parts.get("context"), parts["text"], parts.get("plural"))
