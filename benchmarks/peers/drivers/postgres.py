"""Ask a peer's database for one number. psycopg is in the environment of every peer that uses this."""

from __future__ import annotations

import functools
import os
from typing import Any

import psycopg

from .base import DSN


@functools.cache
def _connection(process: int) -> psycopg.Connection[Any]:
    return psycopg.connect(DSN, autocommit=True)


def number(query: str) -> int:
    """Return the one number that a query gives, over one connection that stays open."""
    row = _connection(os.getpid()).execute(query).fetchone()
    return int(row[0]) if row else 0


def count(table: str, condition: str = "true") -> int:
    """Return how many rows of a table meet a condition."""
    return number(f"SELECT count(*) FROM {table} WHERE {condition}")
