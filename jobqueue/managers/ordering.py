"""Read, answer and forget orders to workers, on whatever connection `run` stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from jobqueue import sql

from .rows import Run

ANSWER_BYTES = 64 * 1024
MOST = 100


class Asked(NamedTuple):
    """One order as its worker reads it; job and epoch are None where it is about the worker itself."""

    id: int
    kind: str
    job_id: int | None
    lease_epoch: int | None
    asked_by: str


class Answer(NamedTuple):
    """What became of an order; the text is the stack that was asked for, or the word for why nothing was done."""

    id: int
    obeyed: bool
    text: str = ""


def read_orders(run: Run, *, worker_id: str) -> list[Asked]:
    """Return the orders that a worker has not answered yet, the oldest hundred."""
    return [Asked(*row) for row in run(sql.READ_ORDERS, {"worker_id": worker_id, "take": MOST})]


def answer_orders(run: Run, *, worker_id: str, answers: Iterable[Answer]) -> set[int]:
    """Write answers down. Returns the ids of the orders that are answered now: a row that is locked is left out."""
    given = [{"id": one.id, "obeyed": one.obeyed, "answer": storable(one.text)} for one in answers]
    return {row[0] for row in run(sql.ANSWER_ORDERS, {"worker_id": worker_id, "answers": json.dumps(given)})}


def prune_orders(run: Run, *, age: timedelta, limit: int) -> int:
    """Delete one batch of orders that are older than an age. Returns how many."""
    return len(run(sql.PRUNE_ORDERS, {"age": age, "take": limit}))


def storable(text: str) -> str:
    """Return a text of at most 64 KiB, as the database can hold it."""
    data = text.replace("\x00", "").encode("utf-8", "replace")[:ANSWER_BYTES]
    return data.decode("utf-8", "ignore")
