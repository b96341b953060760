"""The slow pass over a JSON value: its first fault with the path, or how much longer jsonb prints it than Python.

payloads.py sends only those values here that its fast passes cannot vouch for.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NoReturn

#: Containers within containers; deeper data is a mistake, and recursion in the handler's process would find out late.
MAX_DEPTH: Final = 100

#: Digits before the decimal point in PostgreSQL's numeric.
MAX_DIGITS: Final = 131_072

LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
_HINTS: Final = {
    "datetime": "pass value.isoformat()",
    "date": "pass value.isoformat()",
    "time": "pass value.isoformat()",
    "timedelta": "pass value.total_seconds()",
    "Decimal": "pass str(value)",
    "UUID": "pass str(value)",
    "__proxy__": "a lazy string, pass str(value)",
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
    "bytes": "pass text, or base64 of it",
    "Enum": "pass value.value",
    "PurePath": "pass str(value)",
}


class Refused(Exception):
    """A value cannot be stored; callers turn it into an error of their own."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(path, rule)
        self.path, self.rule = path, rule


def check_count(count: int, max_bytes: int) -> None:
    """Refuse a value of more items than could fit, before its size is known.

    A list that holds itself twice doubles with every level, so counting must stop long before the memory ends. What
    is only somewhat too large passes here, and is told its exact size later.
    """
    if count > max_bytes + 10_000:
        raise Refused("$", f"more than {count} values cannot fit into the limit of {max_bytes} bytes")


class Walk:
    """One slow pass over a value in document order: the first fault and its path, or what jsonb's text adds."""

    def __init__(self, max_bytes: int) -> None:
        self._count, self._max_bytes = 0, max_bytes
        self._path: list[str | int] = []

    def growth(self, value: object) -> int:
        """Return by how many bytes jsonb's text is longer than Python's; raises Refused."""
        if value is None or isinstance(value, bool):
            return 0
        if isinstance(value, str):
            self._check_text(value, "the string")
            return 0
        if isinstance(value, int):
            self._check_digits(value)
            return 0
        if isinstance(value, float):
            return self._float_growth(value)
        if isinstance(value, dict):
            return self._dict_growth(value)
        if isinstance(value, list | tuple):
            return self._children_growth(enumerate(value), len(value))
        return self._refuse(f"{kind_of(value)} is not a JSON type{_hint(value)}")

    def _dict_growth(self, value: dict[Any, Any]) -> int:
        pairs = list(value.items())  # what the encoder asks a subclass for
        for key, _child in pairs:
            if not isinstance(key, str):
                self._refuse(f"the key {_short_repr(key)} is {kind_of(key)}, JSON keys are strings")
            self._check_text(key, f"the key {quoted(key)}")
        return self._children_growth(pairs, len(pairs))

    def _children_growth(self, children: Iterable[tuple[Any, object]], length: int) -> int:
        if len(self._path) >= MAX_DEPTH:
            self._refuse(f"nested deeper than {MAX_DEPTH} levels, or within itself")
        self._count += length
        check_count(self._count, self._max_bytes)
        total = 0
        for step, child in children:
            self._path.append(step)
            total += self.growth(child)
            self._path.pop()
        return total

    def _check_text(self, text: str, what: str) -> None:
        if "\x00" in text:
            self._refuse(f"{what} contains NUL (\\x00), which PostgreSQL cannot store")
        if found := LONE_SURROGATE.search(text):
            self._refuse(f"{what} contains a lone surrogate (\\u{ord(found[0]):04x}), which is not Unicode text")

    def _check_digits(self, value: int) -> None:
        try:
            digits = len(int.__repr__(value))
        except ValueError:  # Python's own limit, sys.set_int_max_str_digits
            self._refuse(f"a whole number of more than {sys.get_int_max_str_digits()} digits")
        if digits > MAX_DIGITS:
            self._refuse(f"a whole number of more than {MAX_DIGITS} digits")

    def _float_growth(self, value: float) -> int:
        if not isfinite(value):
            self._refuse(f"{float.__repr__(value)} is not a JSON number")
        text = float.__repr__(value)
        if "e" in text:
            return len(format(Decimal(text), "f")) - len(text)
        return -1 if text == "-0.0" else 0

    def _refuse(self, rule: str) -> NoReturn:
        raise Refused("$" + "".join(map(_step, self._path)), rule)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{quoted(step)}]"


def quoted(text: str) -> str:
    """Return the text in quotes for a message, shortened; what no log can print is shown escaped."""
    shown = json.dumps(text if len(text) <= 40 else text[:37] + "...", ensure_ascii=False)
    return shown.encode(errors="backslashreplace").decode()


def _short_repr(key: object) -> str:
    return repr(key)[:60] if isinstance(key, int | float | bytes | tuple | None) else f"<{type(key).__name__}>"


def kind_of(value: object) -> str:
    """Return the name of the value's type, with its module unless it is built in."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _hint(value: object) -> str:
    if hasattr(type(value), "_meta") and hasattr(type(value), "pk"):
        return ": pass its pk"
    hint = next((_HINTS[kind.__name__] for kind in type(value).__mro__ if kind.__name__ in _HINTS), "")
    return f": {hint}" if hint else ""
