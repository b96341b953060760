"""Compare what a connection reads with what the model says it sees, and hold the rules that no state may break."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.states import Status

from .arena import Reading
from .jobs import SECOND, Between, ModelJob, Opening, Run, Written
from .model import Model

WAITING = (Status.PENDING, Status.SCHEDULED)


def compare(model: Model, side: int | None, found: Reading) -> None:
    """Fail where anything in the tables is not as the model says; take over the times that the server chose."""
    _meet_notices(model, side, found)
    expected = model.view(side)
    assert list(found.jobs) == list(expected), f"jobs in the table {list(found.jobs)}, in the model {list(expected)}"
    for job_id, row in found.jobs.items():
        _compare_job(expected[job_id], row)
        _hold_rules(expected[job_id], found.at)
        _compare_runs(expected[job_id], [Run(*run) for run in found.attempts.get(job_id, [])])
    assert set(found.attempts) <= set(found.jobs), "attempts outlive their jobs"
    _hold_keys(found)
    _compare_sums(model, side, found)


def _compare_job(job: ModelJob, row: dict[str, Any]) -> None:
    for name, expected in vars(job).items():
        if name == "runs":
            continue
        actual = row[name]
        if isinstance(expected, Between):
            told = f"job {job.id}: {name} is {actual}, expected between {expected.earliest} and {expected.latest}"
            assert expected.earliest <= (actual or 0) <= expected.latest, told
            setattr(job, name, actual)
        elif isinstance(expected, Opening):
            assert actual.startswith(expected), f"job {job.id}: {name} is {actual!r}, expected {expected}…"
            setattr(job, name, actual)
        else:
            assert actual == expected, f"job {job.id}: {name} is {actual!r}, expected {expected!r}"


def _compare_runs(job: ModelJob, runs: list[Run]) -> None:
    if job.runs and isinstance(job.runs[-1].error_text, Opening) and len(runs) == len(job.runs):
        assert runs[-1].error_text.startswith(job.runs[-1].error_text), f"job {job.id}: {runs[-1]}"
        job.runs = (*job.runs[:-1], job.runs[-1]._replace(error_text=runs[-1].error_text))
    assert runs == list(job.runs), f"job {job.id}: attempts written down {runs}, expected {list(job.runs)}"


def _hold_rules(job: ModelJob, now: Any) -> None:
    """Hold what is true of every row in every state (docs/states.md)."""
    status = Status(job.status)
    leased = status == Status.RUNNING
    told = f"job {job.id} is {status.name}"
    assert (job.lease_until is not None) == leased, f"{told}, its lease ends at {job.lease_until}"
    assert (job.finished_at is not None) == (status in (Status.DONE, Status.DEAD, Status.CANCELLED)), told
    assert not leased or (job.worker_id and job.attempts >= 1), f"{told}, by {job.worker_id}, {job.attempts} attempts"
    assert 0 <= job.attempts <= job.max_attempts, f"{told}, {job.attempts} of {job.max_attempts} attempts"
    if status in WAITING:
        assert job.attempts < job.max_attempts, f"{told} with no attempt left"
        assert job.cancel_requested_at is None, f"{told} although somebody asked to cancel it"
    if status == Status.PENDING:
        assert job.run_after <= now, f"{told}, that is due, but only in {(job.run_after - now) / SECOND} s"
    assert len(job.runs) <= job.lease_epoch, f"{told}, {len(job.runs)} attempts written down of {job.lease_epoch}"


def _hold_keys(found: Reading) -> None:
    """A key stands once among active jobs."""
    active = [row["dedupe_key"] for row in found.jobs.values() if row["status"] in (1, 2, 5, 6) and row["dedupe_key"]]
    assert len(active) == len(set(active)), f"keys held twice: {active}"


def _compare_sums(model: Model, side: int | None, found: Reading) -> None:
    seen = Written()
    seen.absorb(model.committed)
    if side in model.open:
        seen.absorb(model.open[side])
    assert found.counts == _filled(seen.counts), "counts by queue, type and outcome"
    assert found.dead == _filled(seen.dead), "counts of what became dead letters"
    assert found.costs == _filled(seen.costs), "sums of costs"
    # Ids are taken when a row is written, while an open transaction's rows are seen by itself only: no order is meant.
    assert sorted(found.actions) == sorted(seen.actions), "what people did"


def _filled(counter: Counter[Any]) -> dict[Any, int]:
    return {name: count for name, count in counter.items() if count}


def _meet_notices(model: Model, side: int | None, found: Reading) -> None:
    """Give the jobs that tell of dead letters and broken limits the ids that the server chose."""
    written = model.committed if side is None else model.written(side)
    for told in written.notices:
        new = [row for row in found.jobs.values() if row["job_type"] == "jobqueue.notify" and _tells(row, told)]
        fresh = [row for row in new if row["id"] not in model.view(side)]
        assert fresh, f"nobody is told of {told}"
        row = fresh[0]
        now = model.now()
        written.jobs[row["id"]] = ModelJob(
            row["id"], "jobqueue.notify", INTERNAL_QUEUE, 0, Status.PENDING, now, 5, created_at=now, updated_at=now
        )
    written.notices.clear()


def _tells(row: dict[str, Any], told: dict[str, Any]) -> bool:
    return all(row["payload"].get(name) == value for name, value in told.items())


def changes(before: Reading, after: Reading) -> list[tuple[int, int | None, int | None]]:
    """Return (id, status before, status after) of every job that came, changed its status, or went."""
    found: list[tuple[int, int | None, int | None]] = []
    for job_id in sorted({*before.jobs, *after.jobs}):
        old, new = before.jobs.get(job_id), after.jobs.get(job_id)
        was, became = (None if row is None else row["status"] for row in (old, new))
        if was != became:
            found.append((job_id, was, became))
    return found


def hold_epochs(verb: str, before: Reading, after: Reading) -> None:
    """An epoch grows by one with every claim, and with nothing else; nobody leaves DONE or CANCELLED."""
    for job_id, new in after.jobs.items():
        old = before.jobs.get(job_id)
        grown = new["lease_epoch"] - (old["lease_epoch"] if old else 0)
        claimed = old is not None and (old["status"], new["status"]) == (Status.PENDING, Status.RUNNING)
        assert grown == int(claimed), f"job {job_id}: its epoch grew by {grown} at {verb}"
        if old is not None and old["status"] in (Status.DONE, Status.CANCELLED):
            assert new["status"] == old["status"], f"job {job_id}: left {Status(old['status']).name}"
