"""Hide secrets in what people read: in JSON by the names of keys, in texts where a name stands before a value.

What is stored is never changed. A name is secret where one of JOBQUEUE["SECRET_PATTERNS"] is found in it, upper and
lower case alike. In a text a value is looked for behind `name=`, `name: `, `"name": ` and `--name `; a quoted value
ends with its quote, a bracketed one with its bracket, `Authorization:` and `Cookie:` with their line. Passwords in
URLs, the paths of chats' hooks and bearer tokens go wherever they stand. A value that no name gives away stays: nobody
can know that it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from .conf import get_settings

MASK: Final = "***"
#: Deeper data is masked as a whole: nobody reads it, and recursion must end.
DEEPEST: Final = 60

_NAME: Final = re.compile(r"[\w.-]+")
# Behind a name: its own closing quote and bracket, what parts it from the value, and up to the value. An option of a
# command line has no more than a space.
_BETWEEN: Final = re.compile(r"""\\*["']?\]?\s*(?:=>|:=|=|:)\s*""")
_AFTER_OPTION: Final = re.compile(r"[ \t]+(?!-)")
_QUOTE: Final = re.compile(r"""[bruf]{0,2}(\\*)(["'])""", re.IGNORECASE)
_BARE: Final = re.compile(r"""(?:[^\s,;&|<>()\[\]{}"'\\]|\\(?!["'nrt]))+""")
_LINE: Final = re.compile(r"(?:authorization|cookie)$", re.IGNORECASE)
_REST: Final = {"": re.compile(r"[^\r\n]+"), '"': re.compile(r'[^\r\n"]+'), "'": re.compile(r"[^\r\n']+")}
_SCHEME: Final = re.compile(r"(?:bearer|basic|digest|token|negotiate|apikey)\s+", re.IGNORECASE)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_ANYWHERE: Final = (
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    # Not the words "basic authentication": base64 has a digit, a capital within, or its padding.
    (re.compile(r"\b([Bb]asic\s+)(?=[A-Za-z+/]*(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/]{4,}={0,2}"), rf"\1{MASK}"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/@:'\"]{0,256}:)[^\s/'\"]{1,256}@", re.IGNORECASE), rf"\1{MASK}@"),
    # A chat's hook: whoever knows its path may write there.
    (
        re.compile(
            r"\b(https://(?:hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|[\w.-]{1,80}\.webhook\.office\.com)/)"
            r"[^\s\"'<>|\\]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL), rf"\1{MASK}"),
)


def is_secret(name: str, *, more: Iterable[str] = ()) -> bool:
    """Tell whether the value under a name is to be hidden; `more` are whole names that are secret, too."""
    return name in more or _pattern(get_settings().SECRET_PATTERNS).search(name) is not None


def mask_json(value: Any, *, more: Iterable[str] = ()) -> Any:
    """Return a copy of a JSON value with every secret hidden, at any depth; None, True and False are left.

    Other texts within it are masked as mask_text() does. `more` are names of keys that are secret, too.
    """
    return _mask(value, frozenset(more), 0)


def mask_text(text: str) -> str:
    """Return a text with the values of secret names, passwords in URLs and bearer tokens hidden."""
    pattern, parts, done = _pattern(get_settings().SECRET_PATTERNS), [], 0
    for name in _NAME.finditer(text):
        if name.start() < done or not pattern.search(name[0]):
            continue
        found = _value_behind(text, name)
        if found is not None:
            start, end = found
            parts += [text[done:start], MASK]
            done = end
    masked = "".join([*parts, text[done:]]) if parts else text
    for pattern_anywhere, shown in _ANYWHERE:
        masked = pattern_anywhere.sub(shown, masked)
    return masked


@lru_cache(maxsize=8)
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # Without patterns nothing is secret: an expression that never matches.
    return re.compile("|".join(f"(?:{each})" for each in patterns) or r"(?!)", re.IGNORECASE)


def _mask(value: Any, more: frozenset[str], depth: int) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, Mapping):
        return MASK if depth > DEEPEST else {key: _mask_item(key, each, more, depth) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return MASK if depth > DEEPEST else [_mask(each, more, depth + 1) for each in value]
    return value


def _mask_item(key: Any, value: Any, more: frozenset[str], depth: int) -> Any:
    if value is None or isinstance(value, bool) or not is_secret(str(key), more=more):
        return _mask(value, more, depth + 1)
    return MASK


def _value_behind(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return where the value of a name starts and ends, None where no value follows."""
    between = _BETWEEN.match(text, name.end())
    if between is None and name[0].startswith("-"):
        between = _AFTER_OPTION.match(text, name.end())
    if between is None:
        return None
    start = between.end()
    quote = _QUOTE.match(text, start)
    if quote is not None:
        return quote.end(), _closing_quote(text, quote)
    if text[start : start + 1] in _CLOSING:
        return start, _closing_bracket(text, start)
    if _LINE.search(name[0]):
        before = text[max(name.start() - 1, 0) : name.start()]
        return _span(_REST[before if before in _REST else ""], text, start)
    scheme = _SCHEME.match(text, start)
    return _span(_BARE, text, scheme.end() if scheme else start)


def _span(pattern: re.Pattern[str], text: str, start: int) -> tuple[int, int] | None:
    found = pattern.match(text, start)
    return None if found is None else found.span()


def _closing_quote(text: str, quote: re.Match[str]) -> int:
    """Return where a quoted value ends: before the same quote behind as many backslashes; or the text's end."""
    depth, mark, place = len(quote[1]), quote[2], quote.end()
    while (place := text.find(mark, place)) >= 0:
        slashes = 0
        while place - slashes > quote.end() and text[place - slashes - 1] == "\\":
            slashes += 1
        if slashes <= depth:
            return place - slashes
        place += 1
    return len(text)


def _closing_bracket(text: str, start: int) -> int:
    """Return where a bracketed value ends, or the text's end: what was cut off within a secret stays hidden."""
    open_brackets: list[str] = []
    for place in range(start, len(text)):
        character = text[place]
        if character in _CLOSING:
            open_brackets.append(_CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return place + 1
    return len(text)
