"""What the terms of a search mean: one condition of the database each, and the words that explain it to people.

What the masks hide cannot be found out by searching either: without `view_payload` no name of a path may be a secret
one, and of a longer text only what stands before the first thing that looks like a secret is compared. Else a person
could ask for a password letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, Case, F, Func, JSONField, Q, TextField, Value, When
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue.conf import get_settings
from jobqueue.models.job import of_type
from jobqueue.redaction import is_secret
from jobqueue.states import Status

from .base import LARGEST_ID
from .search_syntax import SearchError, Term

#: Where a plain text is looked for, beside the error.
PLAIN_FIELDS: Final = ("dedupe_key", "owner", "job_type", "worker_id", "fingerprint")
NAMED_FIELDS: Final = {
    "type": "job_type", "queue": "queue", "owner": "owner", "worker": "worker_id", "key": "dedupe_key",
    "fingerprint": "fingerprint",
}  # fmt: skip
NUMBER_FIELDS: Final = {"priority": "priority", "attempt": "attempts"}
LARGEST_SMALL: Final = 2**15 - 1
MOST_IDS: Final = 100

#: (what one types, what it finds): shown beside the search box.
HELP: Final = (
    ("type:documents.*", gettext_lazy("a job type; * stands for any text, also with queue, owner, worker and key")),
    ("queue:mail", gettext_lazy("a queue")),
    ("status:dead,cancelled", gettext_lazy("one status or several")),
    ("error:timeout", gettext_lazy("a text in the class or the message of the last error")),
    ("payload.account.id:123", gettext_lazy("a value of the payload by its path; tags.0 is the first of a list")),
    ("payload.path:*", gettext_lazy("any payload that has this value")),
    ("after:2h before:2026-11-30T18:00", gettext_lazy("so long ago (s, m, h, d, w), a day, or a day and a time")),
    ("priority:<100 attempt:>=2", gettext_lazy("numbers, also with <, <=, > and >=")),
    ("id:17,18", gettext_lazy("jobs by their ids; a number alone is an id, too")),
    ("owner:anna worker:web1* key:index:7 fingerprint:4f2a", gettext_lazy("other columns, whole or with *")),
    ("-queue:mail", gettext_lazy("a minus: what it would find is left out")),
    ("timeout", gettext_lazy("any other text: looked for in key, owner, type, worker, fingerprint and error")),
    ('"out of memory"', gettext_lazy("quotes: a text with spaces, colons or stars as it stands")),
)  # fmt: skip

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO: Final = re.compile(r"([0-9]{1,9})([smhdw])")
_COMPARED: Final = re.compile(r"(<=|>=|<|>|)(-?[0-9]{1,9})")
_LOOKUPS: Final = {"": "exact", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
#: What masks hide wherever it stands.
_LOOKS_SECRET: Final = (r"bearer", r"basic ", r"://[^/[:space:]]*@", r"hooks\.", r"webhook", r"private key")
#: Patterns that PostgreSQL reads as Python does; with any other one texts are not searched at all.
_SHARED: Final = re.compile(r"(?:[^\\()]|\((?!\?)|\(\?(?::|=|!|<=|<!)|\))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a search means where and when it is made."""

    moment: Callable[[], datetime]  # by the database's clock; asked for where a search needs it
    instant: str = "created_at"  # the column that `after` and `before` compare
    sees_hidden: bool = False


class Like(Func):
    """`text LIKE pattern`, or ILIKE."""

    arg_joiner, template, output_field = " LIKE ", "(%(expressions)s)", BooleanField()


class ILike(Like):
    """The same for upper and lower case."""

    arg_joiner = " ILIKE "


def condition(term: Term, meaning: Meaning) -> Q:
    """Return the condition that a term stands for. Raises SearchError."""
    found = _BY_KEY[term.key](term, meaning)
    # Not by ~: what is unknown of a row without such a value is not "true", so the row belongs to the others.
    return Q(Case(When(found, then=Value(False)), default=Value(True))) if term.negated else found


def instant_of_term(term: Term, meaning: Meaning) -> datetime:
    """Return the time that an `after` or `before` names. Raises SearchError."""
    try:
        if ago := _AGO.fullmatch(term.value):
            return meaning.moment() - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        at = parse_datetime(term.value)
        if at is None and (day := parse_date(term.value)):
            at = datetime.combine(day, time())
        if at is not None:
            return (timezone.make_aware(at) if timezone.is_naive(at) else at).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise SearchError(str(term), _("a time is 2h (s, m, h, d or w), 2026-11-30 or 2026-11-30T18:00"))


def statuses_of(term: Term) -> list[Status]:
    """Return the statuses that a term names. Raises SearchError."""
    names = {str(name).casefold(): status for status in Status for name in (status.name, status.label)}
    try:
        return [names[word.casefold()] for word in term.value.split(",")]
    except KeyError:
        known = ", ".join(status.name.lower() for status in Status)
        raise SearchError(str(term), _("a status is one of %(names)s") % {"names": known}) from None


def is_id(term: Term) -> bool:
    """Tell whether a term finds jobs by their ids."""
    return term.key == "id" or (not term.key and not term.quoted and _id_of(term.value.removeprefix("#")) is not None)


def _plain(term: Term, meaning: Meaning) -> Q:
    if not term.quoted and (number := _id_of(term.value.removeprefix("#"))) is not None:
        return Q(pk=number)
    found = _error(term, meaning)
    for name in PLAIN_FIELDS:
        found |= Q(ILike(F(name), Value(_pattern(term.value, inside=True))))
    return found


def _named(term: Term, meaning: Meaning) -> Q:
    name = NAMED_FIELDS[term.key]
    if "*" in term.value and not term.quoted:
        return _text(F(name), term)
    # By =, which the indexes know.
    return of_type(term.value) if name == "job_type" else Q(**{name: term.value})


def _text(text: Any, term: Term) -> Q:
    return Q(Like(text, Value(_pattern(term.value, stars=not term.quoted))))


def _error(term: Term, meaning: Meaning) -> Q:
    pattern = Value(_pattern(term.value, inside=True))
    by_class, by_text = Q(ILike(F("error_class"), pattern)), Q(ILike(F("last_error"), pattern))
    shown = shown_text(F("last_error"), sees_hidden=meaning.sees_hidden)
    return by_class if shown is None else by_class | by_text & Q(ILike(shown, pattern))


def _status(term: Term, meaning: Meaning) -> Q:
    found = statuses_of(term)
    # A single one as a literal of its own: the partial indexes are found by it.
    return Q(status=found[0]) if len(found) == 1 else Q(status__in=found)


def _ids(term: Term, meaning: Meaning) -> Q:
    numbers = [_id_of(word.removeprefix("#")) for word in term.value.split(",")]
    if None in numbers or len(numbers) > MOST_IDS:
        raise SearchError(str(term), _("an id is a number; up to %(most)d stand with commas") % {"most": MOST_IDS})
    return Q(pk__in=numbers)


def _number(term: Term, meaning: Meaning) -> Q:
    compared = _COMPARED.fullmatch(term.value)
    if compared is None or abs(int(compared[2])) > LARGEST_SMALL:
        raise SearchError(str(term), _("a small number, also with <, <=, > or >= before it"))
    return Q(**{f"{NUMBER_FIELDS[term.key]}__{_LOOKUPS[compared[1]]}": int(compared[2])})


def _time(term: Term, meaning: Meaning) -> Q:
    lookup = "gte" if term.key == "after" else "lt"
    return Q(**{f"{meaning.instant}__{lookup}": instant_of_term(term, meaning)})


def _payload(term: Term, meaning: Meaning) -> Q:
    if not meaning.sees_hidden and any(map(is_secret, term.path)):
        raise SearchError(str(term), _("this value is hidden: it is searched by those who may see hidden values"))
    path = Value(list(term.path), output_field=ArrayField(TextField()))
    value = Func(F("payload"), path, arg_joiner=" #> ", template="(%(expressions)s)", output_field=JSONField())
    if term.value == "*" and not term.quoted:
        return Q(Func(value, template="(%(expressions)s IS NOT NULL)", output_field=BooleanField()))
    text: Any = Func(F("payload"), path, arg_joiner=" #>> ", template="(%(expressions)s)", output_field=TextField())
    found = _text(text, term)
    if term.quoted or "*" not in term.value or meaning.sees_hidden:
        return found
    shown = shown_text(text, sees_hidden=meaning.sees_hidden)
    if shown is None:
        raise SearchError(str(term), _("a whole value without *: parts of it may be hidden here"))
    kind = Func(value, function="jsonb_typeof", output_field=TextField())
    single = Func(kind, template="(%(expressions)s NOT IN ('object', 'array'))", output_field=BooleanField())
    return found & Q(single) & _text(shown, term)


def shown_text(text: Any, *, sees_hidden: bool) -> Any:
    """Return a text up to what may be hidden in it, or None where nobody can tell by the database's patterns."""
    if sees_hidden:
        return text
    patterns = get_settings().SECRET_PATTERNS
    if not all(_SHARED.fullmatch(pattern) for pattern in patterns):
        return None
    secret = "|".join(f"(?:{pattern})" for pattern in (*patterns, *_LOOKS_SECRET))
    return Func(
        text, Value(f"(?:{secret}).*"), Value(""), Value("i"), function="regexp_replace", output_field=TextField()
    )


def _id_of(text: str) -> int | None:
    return min(int(text), LARGEST_ID) if text.isascii() and text.isdecimal() else None


def _pattern(text: str, *, stars: bool = False, inside: bool = False) -> str:
    """Return the pattern of LIKE for a text: as it stands, with `*` for any text, or anywhere within another."""
    for character in "\\%_":
        text = text.replace(character, f"\\{character}")
    return f"%{text}%" if inside else text.replace("*", "%") if stars else text


_BY_KEY: Final[dict[str, Callable[[Term, Meaning], Q]]] = {
    "": _plain,
    **dict.fromkeys(NAMED_FIELDS, _named),
    **dict.fromkeys(NUMBER_FIELDS, _number),
    "status": _status,
    "error": _error,
    "id": _ids,
    "after": _time,
    "before": _time,
    "payload": _payload,
}
