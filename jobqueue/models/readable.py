"""Columns that can always be read, whatever SQL written by hand has put into them.

No verb writes such values, and one of them must not take a list or a page down, or a claim of many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import models

if TYPE_CHECKING:
    DateTimeField = models.DateTimeField[Any, Any]
else:
    DateTimeField = models.DateTimeField

# A day within what datetime can hold, so that no session's time zone moves them out of it.
FIRST: Final = "'0001-01-02 00:00:00+00'::timestamptz"
LAST: Final = "'9999-12-30 00:00:00+00'::timestamptz"


class InstantField(DateTimeField):
    """A DateTimeField that reads what Python cannot hold, infinity or the year 20000, as the nearest that it can.

    Conditions and orders still see the time as it is.
    """

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Return the column as it is read."""
        return f"CASE WHEN {sql} < {FIRST} THEN {FIRST} WHEN {sql} > {LAST} THEN {LAST} ELSE {sql} END", params * 3

    def deconstruct(self) -> Any:
        """Return what migrations know it as: the column is that of a DateTimeField."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


class ReadableJSONField(models.JSONField):
    """A JSONField that gives as text what Python cannot read: nested a thousand deep, or a number of 5,000 digits."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the value, or its text."""
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return value

    def deconstruct(self) -> Any:
        """Return what migrations know it as: the column is that of a JSONField."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
