"""Read the JOBQUEUE setting from the environment: JOBQUEUE_LEASE_SECONDS and so on, one variable a field."""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from environ import Env

from jobqueue.conf import JobQueueSettings

PREFIX = "JOBQUEUE_"


def jobqueue_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the JOBQUEUE setting: a value for each field whose variable is set, read by the field's type.

    Mappings are written as JSON, sequences with commas between their items, and an optional field
    is None when its variable is empty. Raises ImproperlyConfigured naming the variable.
    """
    hints = typing.get_type_hints(JobQueueSettings)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(JobQueueSettings):
        text = environment.get(PREFIX + field.name)
        if text is not None:
            found[field.name] = _read(PREFIX + field.name, text, hints[field.name], secret=not field.repr)
    return found


def _read(variable: str, text: str, hint: Any, *, secret: bool = False) -> Any:
    """Return the text as a value of the field's type; of a union, the first member that fits."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if not text.strip() and type(None) in members:
        return None
    for member in members:
        kind = typing.get_origin(member) or member
        try:
            return _reader(kind)(text)
        except ValueError:
            continue
    shown = "…" if secret else repr(text)
    raise ImproperlyConfigured(f"{variable}={shown} cannot be read as {getattr(hint, '__name__', hint)}")


def _reader(kind: type) -> Callable[[str], Any]:
    if kind is bool:
        return _boolean
    if kind in (int, float, str):
        return kind
    if kind is Decimal:
        return _decimal
    if issubclass(kind, Mapping):
        return _mapping
    if issubclass(kind, Sequence):
        return lambda text: tuple(item.strip() for item in text.split(",") if item.strip())
    return _nothing


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in Env.BOOLEAN_TRUE_STRINGS:
        return True
    if word in ("false", "off", "no", "n", "0"):
        return False
    raise ValueError(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _nothing(text: str) -> None:
    raise ValueError(text)
