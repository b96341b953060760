r"""The language of the search box, as text: words that all must hold, each plain or `key:value`, `-` before it for not.

    type:documents.* error:timeout -queue:mail payload.account.id:123 "a text with spaces"

A value in quotes is taken as it stands: it has no `*` and is no number; `\"` and `\\` within stand for a quote and a
backslash. What a key means is told in search_terms.py. parse() raises nothing but SearchError, and
parse(written(terms)) gives the same terms again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

#: The keys that take a text, a number, a time, …; `payload` is followed by a path.
KEYS: Final = (
    "type", "queue", "status", "owner", "worker", "key", "error", "fingerprint", "id", "priority", "attempt", "after",
    "before",
)  # fmt: skip
PAYLOAD: Final = "payload"
LONGEST: Final = 1_000
MOST: Final = 20
DEEPEST: Final = 10

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_WORD: Final = re.compile(rf'(?:{_QUOTED}|[^\s"]|")+?(?=\s|\Z)', re.DOTALL)
_STEP: Final = re.compile(rf'\.({_QUOTED}|[^\s".:]+)', re.DOTALL)
_KEY: Final = re.compile(r"([a-z_]+)(?=[.:])")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_BARE: Final = re.compile(r'[^\s":][^\s"]*')
_BARE_STEP: Final = re.compile(r'[^\s".:]+')


class SearchError(ValueError):
    """What was typed is no search; it names the term and says the rule that it breaks."""

    def __init__(self, term: str, rule: str) -> None:
        super().__init__(f"{term}: {rule}")
        self.term, self.rule = term, rule


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. Without a key the value is looked for in several columns; `path` is of the payload only."""

    value: str
    key: str = ""
    path: tuple[str, ...] = ()
    quoted: bool = False
    negated: bool = False

    def __str__(self) -> str:
        """Return it as a person would type it."""
        steps = "".join(f".{_written(step, _BARE_STEP)}" for step in self.path)
        name = f"{self.key}{steps}:" if self.key else ""
        return f"{'-' if self.negated else ''}{name}{_quoted(self.value) if self.quoted else self.value}"


def parse(text: str) -> tuple[Term, ...]:
    """Return the terms of a search. Raises SearchError, and nothing else."""
    # What the database cannot store it cannot find: NUL, and halves of characters.
    text = text.replace("\x00", "").encode("utf-8", "replace").decode()
    if len(text) > LONGEST:
        raise SearchError(f"{text[:20]}…", _("a search has %(most)d characters at most") % {"most": LONGEST})
    terms = tuple(_term(word[0]) for word in _WORD.finditer(text))
    if len(terms) > MOST:
        raise SearchError(str(terms[MOST]), _("a search has %(most)d terms at most") % {"most": MOST})
    return terms


def written(terms: Iterable[Term]) -> str:
    """Return the text that stands for these terms."""
    return " ".join(map(str, terms))


def _term(word: str) -> Term:
    negated, rest = word.startswith("-"), word.removeprefix("-")
    key, path, value = _split(word, rest)
    if value.startswith('"'):
        if not re.fullmatch(_QUOTED, value, re.DOTALL):
            raise SearchError(word, _("a quoted text ends with a quote, and a space follows it"))
        inner = _ESCAPED.sub(r"\1", value[1:-1])
        if not inner:
            raise SearchError(word, _("there is nothing within the quotes"))
        return Term(inner, key, path, quoted=True, negated=negated)
    if '"' in value:
        raise SearchError(word, _('a quote stands before and behind the whole value, or within quotes as \\"'))
    if not value:
        raise SearchError(word, _("a value is missing behind it"))
    return Term(value, key, path, negated=negated)


def _split(word: str, rest: str) -> tuple[str, tuple[str, ...], str]:
    """Return (key, path, value as it was typed); no key where none stands before a colon."""
    named = _KEY.match(rest)
    if named is None or (named[1] != PAYLOAD and rest[named.end()] == "."):
        if ":" in rest.partition('"')[0]:
            raise SearchError(word, _unknown(rest.partition(":")[0]))
        return "", (), rest
    key, at = named[1], named.end()
    if key == PAYLOAD:
        path, at = _path(word, rest, at)
        return key, path, rest[at + 1 :]
    if key not in KEYS:
        raise SearchError(word, _unknown(key))
    return key, (), rest[at + 1 :]


def _path(word: str, rest: str, at: int) -> tuple[tuple[str, ...], int]:
    steps: list[str] = []
    while step := _STEP.match(rest, at):
        steps.append(_ESCAPED.sub(r"\1", step[1][1:-1]) if step[1].startswith('"') else step[1])
        at = step.end()
    if not steps or rest[at : at + 1] != ":":
        raise SearchError(word, _("the payload is searched by a path: payload.path:value, payload.account.id:123"))
    if len(steps) > DEEPEST or "" in steps:
        raise SearchError(word, _("a path has %(most)d names at most, and none of them is empty") % {"most": DEEPEST})
    return tuple(steps), at


def _unknown(key: str) -> str:
    keys = ", ".join((*KEYS, "payload.path"))
    return _(
        "there is no key “%(key)s”. The keys are %(keys)s. A text with a colon is looked for in quotes."
    ) % {"key": key, "keys": keys}  # fmt: skip


def _written(text: str, bare: re.Pattern[str]) -> str:
    return text if bare.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
