"""Payloads, results, names and keys: refuse in Python what PostgreSQL would refuse, before it sees them.

A value that fails inside SQL poisons the caller's transaction with an error that does not say where it is. So every
value is checked here, and its size is counted as jsonb prints it: a payload that was accepted at enqueue has the same
size for the limits that the worker checks.

The usual value costs three passes, all in C: the types in each container (``_survey``), the encoder, and a search for
an escaped NUL. Only what these cannot vouch for goes through ``Walk``, slowly and in Python: it finds the first
fault and its path, or by how much the size differs.

jsonb prints as Python's encoder writes (", " and ": ", non-ASCII raw, the same escapes), except for numbers: it keeps
them as decimals, so 1e+16 becomes 10000000000000000, 1e-07 becomes 0.0000001 and -0.0 becomes 0.0. The text that is
sent is Python's; only the size is corrected.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, NoReturn

from .exceptions import InvalidName, PayloadError, ResultError
from .jsonwalk import LONE_SURROGATE, MAX_DEPTH, MAX_DIGITS, Refused, Walk, check_count, kind_of, quoted

#: PostgreSQL's limit on an identifier: LISTEN cuts longer channel names without a word.
MAX_NAME_BYTES: Final = 63
MAX_KEY_BYTES: Final = 255

_STRING: Final = frozenset({str})
_SCALARS: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list, tuple})
_JSON_TYPES: Final = _SCALARS | _CONTAINERS | {float}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Encoded(NamedTuple):
    """A value as JSON text, and how many bytes of UTF-8 jsonb prints for it."""

    text: str
    size: int


_NULL: Final = Encoded("null", 4)

# How many keys the encoder of one job type remembers, of payloads of so many characters at most.
_MOST_KEYS: Final = 1_000
_MOST_CHARACTERS: Final = 4_096


def encode_payload(value: object, *, max_bytes: int, index: int | None = None, job_type: str = "") -> Encoded:
    """Return the payload as JSON text with its size, without touching the database.

    Raises PayloadError naming the path and the rule, with ``index`` (the place in a bulk call) and ``job_type``.
    Tuples become arrays, members of str and int enums their plain values.
    """
    try:
        if not isinstance(value, dict):
            raise Refused("$", f"a payload is a JSON object (a dict), not {kind_of(value)}")
        return _encode(value, max_bytes)
    except Refused as refused:
        raise PayloadError(refused.path, refused.rule, index, job_type) from None


def flat_encoder(max_bytes: int) -> Callable[[object], str | None]:
    """Return a function for the usual payload: the JSON text of a flat dict of ASCII strings, whole numbers, booleans.

    Such a text is as long as its size. None stands for anything else, good or bad: encode_payload() decides.
    """
    longest = min(max_bytes, MAX_DIGITS)
    keys: set[object] = set()  # the keys seen so far, all of them strings: jobs of one type have the same few
    is_known, are_scalars, to_text = keys.issuperset, _SCALARS.issuperset, _to_text

    def encode_flat(value: object) -> str | None:
        if type(value) is not dict:
            return None
        known = is_known(value)
        if not known and not _STRING.issuperset(map(type, value)):
            return None
        if not are_scalars(map(type, value.values())):
            return None
        try:
            text = to_text(value)
        except ValueError:  # a whole number of too many digits
            return None
        if len(text) > longest or not text.isascii() or "\\u0000" in text:
            return None
        if not known and len(text) <= _MOST_CHARACTERS and len(keys) + len(value) <= _MOST_KEYS:
            keys.update(value)
        return text

    return encode_flat


def encode_result(value: object, max_bytes: int) -> Encoded:
    """Return a handler's result, any JSON value, as JSON text with its size; raises ResultError."""
    if value is None:  # what most handlers return
        return _NULL
    try:
        return _encode(value, max_bytes)
    except Refused as refused:
        raise ResultError(refused.path, refused.rule) from None


def _make_encoder() -> Callable[[object], str]:
    make_in_c = getattr(json.encoder, "c_make_encoder", None)
    if make_in_c is None:  # another Python than CPython
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
    # JSONEncoder.encode() builds this object anew for each call, which takes as long as encoding a small payload.
    chunks = make_in_c(None, _refuse_type, json.encoder.encode_basestring, None, ": ", ", ", False, False, False)
    return lambda value: "".join(chunks(value, 0))


def _refuse_type(value: object) -> NoReturn:
    raise TypeError(f"{kind_of(value)} is not a JSON type")


_to_text: Final = _make_encoder()


def _encode(value: Any, max_bytes: int) -> Encoded:
    # One flat dict of strings, whole numbers and booleans is what most jobs carry.
    if type(value) is dict and _STRING.issuperset(map(type, value)) and _SCALARS.issuperset(map(type, value.values())):
        kinds: AbstractSet[type] | None = _SCALARS
    else:
        kinds = _survey(value, max_bytes)
    growth = 0 if kinds is not None else Walk(max_bytes).growth(value)
    try:
        text = _to_text(value)
        size = len(text) if text.isascii() else len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        Walk(max_bytes).growth(value)
        raise Refused("$", str(error)) from error
    if kinds is not None and _is_doubtful(text, kinds):
        growth = Walk(max_bytes).growth(value)
    if size + growth > max_bytes:
        raise Refused("$", f"{size + growth} bytes of JSON are over the limit of {max_bytes}")
    return Encoded(text, size + growth)


def _is_doubtful(text: str, kinds: AbstractSet[type]) -> bool:
    """Tell whether the text may hold a NUL, a number that jsonb prints otherwise, or one too long for it.

    The same characters may stand in a string by chance; the walk then finds nothing, and only time was lost.
    """
    if "\\u0000" in text:
        return True
    if float in kinds and ("e-" in text or "e+" in text or "-0.0" in text):
        return True
    return len(text) > MAX_DIGITS and not 0 < sys.get_int_max_str_digits() <= MAX_DIGITS


def _survey(root: object, max_bytes: int) -> set[type] | None:
    """Return the types within, or None when one of them, a key or the depth needs the slow walk."""
    kinds: set[type] = set()
    level: list[Any] = [(root,)]
    count = 0
    for _depth in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for container in level:
            items = container
            if type(container) is dict:
                if not _STRING.issuperset(map(type, container)):
                    return None
                items = container.values()
            here = set(map(type, items))
            kinds |= here
            if not here.isdisjoint(_CONTAINERS):
                deeper.extend(item for item in items if type(item) in _CONTAINERS)
            count += len(container)
            check_count(count, max_bytes)
        if not deeper:
            return kinds if kinds <= _JSON_TYPES else None
        level = deeper
    return None


def check_name(kind: str, value: object) -> str:
    """Return the queue name or job type if it may be used as one, else raise InvalidName.

    ``kind`` is the word for the message ("queue", "job type"). Such names become channel names, URLs and metric
    labels, so only ASCII letters, digits, "_", "." and "-" are allowed, at most 63 bytes.
    """
    if not isinstance(value, str):
        raise InvalidName(f"{kind} must be a string, not {kind_of(value)}")
    if len(value) <= MAX_NAME_BYTES and _NAME.fullmatch(value):
        return _plain(value)
    size = len(value.encode(errors="surrogatepass"))
    raise InvalidName(
        f"{kind} {quoted(value)} ({size} bytes) is not allowed: at most {MAX_NAME_BYTES} bytes of ASCII letters, "
        'digits, "_", "." and "-", not starting with "." or "-"'
    )


def check_key(kind: str, value: object) -> str:
    """Return the dedupe key or owner if it can be stored, else raise InvalidName; any text up to 255 bytes can."""
    if not isinstance(value, str):
        raise InvalidName(f"{kind} must be a string, not {kind_of(value)}")
    if not value:
        raise InvalidName(f"{kind} must not be empty")
    if "\x00" in value or LONE_SURROGATE.search(value):
        raise InvalidName(f"{kind} {quoted(value)} contains NUL or a lone surrogate, which PostgreSQL cannot store")
    if len(value) * 4 > MAX_KEY_BYTES and (size := len(value.encode())) > MAX_KEY_BYTES:
        raise InvalidName(f"{kind} {quoted(value)} has {size} bytes, the limit is {MAX_KEY_BYTES} bytes of UTF-8")
    return _plain(value)


def _plain(text: str) -> str:
    """Return the text of a member of a str enum: printed into a line it would be its name."""
    return text if type(text) is str else str.__str__(text)
