"""Claim, renew and give back: the verbs of a lease, on whatever connection `run` stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from jobqueue import sql

from .arrays import number_array, text_array
from .rows import ClaimedJob, CostLine, Release, Renewal, Run, Span, cost_lines, open_costs_json, total_cost

_CLAIM_ORDER = itemgetter(4, 5, 0)  # priority, run_after, id


def claim(
    run: Run, *, spans: Sequence[Span], worker_id: str, lease: timedelta, total: int | None = None
) -> list[ClaimedJob]:
    """Claim due jobs from index ranges, best first within a queue; never more than `total` (default: all the takes)."""
    rows = run(
        sql.CLAIM_JOBS,
        {
            "queues": [span.queue for span in spans],
            "takes": [span.take for span in spans],
            "priorities": [span.priority for span in spans],
            "run_afters": [str(span.run_after) for span in spans],
            "ids": [span.id for span in spans],
            "tops": [span.top for span in spans],
            "untils": [str(span.until) for span in spans],
            "total": sum(span.take for span in spans) if total is None else total,
            "worker_id": worker_id,
            "lease": lease,
        },
    )
    return sorted(map(ClaimedJob._make, rows), key=_CLAIM_ORDER)


def renew(
    run: Run, *, worker_id: str, held: Sequence[tuple[int, int, float | None]], lease: timedelta
) -> list[Renewal]:
    """Renew leases. `held` rows are (id, lease_epoch, seconds since the handler started or None)."""
    rows = run(
        sql.RENEW_LEASES,
        {
            "worker_id": worker_id,
            "ids": number_array([row[0] for row in held]),
            "epochs": number_array([row[1] for row in held]),
            "run_seconds": number_array([row[2] for row in held]),
            "lease": lease,
        },
    )
    return [Renewal(*row) for row in rows]


def cancel_requests(run: Run, *, ids: Sequence[int]) -> list[int]:
    """Return those of the jobs that somebody asked to cancel while they run."""
    return [row[0] for row in run(sql.CANCEL_REQUESTS, {"ids": number_array(ids)})]


def release(run: Run, *, worker_id: str, releases: Sequence[Release]) -> dict[int, int]:
    """Give leased jobs back uncharged. Returns {id: status} of those that were still this worker's."""
    rows = run(
        sql.RELEASE_JOBS,
        {
            "worker_id": worker_id,
            "ids": [item.id for item in releases],
            "epochs": [item.lease_epoch for item in releases],
            "delays": [None if item.delay is None else item.delay.total_seconds() for item in releases],
            "unknowns": [item.unknown for item in releases],
            "costs": text_array([str(total_cost(item.costs)) for item in releases]),
            "cost_lines": cost_lines(releases),
        },
    )
    return {row[0]: row[1] for row in rows}


def release_strays(run: Run, *, worker_id: str, held: Iterable[int]) -> list[int]:
    """Give back rows leased under this worker's id that it does not hold. Returns their ids."""
    return [row[0] for row in run(sql.RELEASE_STRAYS, {"worker_id": worker_id, "held": list(held)})]


def write_progress(run: Run, *, worker_id: str, progress: Mapping[tuple[int, int], Any]) -> None:
    """Store what running handlers reported: {(id, lease_epoch): JSON-able progress}."""
    run(
        sql.WRITE_PROGRESS,
        {
            "worker_id": worker_id,
            "ids": [key[0] for key in progress],
            "epochs": [key[1] for key in progress],
            "progress": [json.dumps(value) for value in progress.values()],
        },
    )


def write_costs(run: Run, *, worker_id: str, costs: Mapping[tuple[int, int], Sequence[CostLine]]) -> set[int]:
    """Write down what running attempts have cost so far: {(id, lease_epoch): lines}. Returns the ids written."""
    rows = run(
        sql.WRITE_COSTS,
        {
            "worker_id": worker_id,
            "ids": [key[0] for key in costs],
            "epochs": [key[1] for key in costs],
            "costs": [open_costs_json(lines) for lines in costs.values()],
        },
    )
    return {row[0] for row in rows}
