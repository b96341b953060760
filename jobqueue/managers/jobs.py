"""Job.objects: the public face of the verbs, on Django's connection of the jobs' alias."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import DatabaseError, IntegrityError, connections, transaction

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.exceptions import InvalidTransition
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.states import Status

from . import moving, settling
from .attempts import AttemptMixin
from .enqueueing import EnqueueMixin
from .querysets import JobQuerySet
from .rows import Moved, PayloadEdit
from .waking import tell_workers, wake_after_commit

if TYPE_CHECKING:
    from jobqueue.ops.snapshot import Snapshot

BATCH = 1_000
LOCK_TIMEOUT = "2s"
RETRIED = {settling.LOCK_NOT_AVAILABLE, settling.DEADLOCK_DETECTED}


def _why_refused(error: DatabaseError, *, locked: bool) -> str:
    if locked:
        return "is locked by another transaction: try again"
    if isinstance(error, IntegrityError):
        return "its key was taken meanwhile"
    return f"the database refused: {str(error).strip().splitlines()[0]}"


class JobManager(EnqueueMixin, AttemptMixin):
    """Enqueue jobs and change their state; every change compares what it expects and says when it was refused."""

    def due(self) -> JobQuerySet:
        """See JobQuerySet.due()."""
        return self.get_queryset().due()

    def dead(self) -> JobQuerySet:
        """See JobQuerySet.dead()."""
        return self.get_queryset().dead()

    def stuck(self) -> JobQuerySet:
        """See JobQuerySet.stuck()."""
        return self.get_queryset().stuck()

    def reap(self, limit: int = BATCH) -> dict[int, int]:
        """Take back jobs whose lease ran out, and wake workers after the commit.

        Returns {id: status after}: PENDING, DEAD or CANCELLED.
        """
        rows = moving.reap(self.run_sql, limit=limit)
        self._wake({queue for _, status, _, _, queue in rows if status == Status.PENDING})
        return {row[0]: row[1] for row in rows}

    def promote(self, limit: int = BATCH) -> list[int]:
        """Make scheduled jobs whose time has come PENDING. Returns their ids, and wakes workers after the commit."""
        rows = moving.promote(self.run_sql, limit=limit)
        self._wake({queue for _, queue in rows})
        return [job_id for job_id, _ in rows]

    def cancel(self, ids: int | Iterable[int], *, reason: str = "") -> Moved:
        """Cancel jobs: waiting ones at once, running ones within about a second by their worker.

        Raises InvalidTransition for a single id that is finished or gone. In `changed`, RUNNING means asked.
        """

        def one_batch(batch: Sequence[int], moved: Moved) -> None:
            changed, workers = moving.cancel(self.run_sql, ids=batch, reason=reason)
            moved.changed |= changed
            tell_workers(connections[self.write_db], workers)

        return self._move(ids, "cancel", one_batch)

    def redrive(
        self, ids: int | Iterable[int], *, spread: timedelta = timedelta(0), not_before: datetime | None = None
    ) -> Moved:
        """Put dead letters back with a fresh budget of attempts, due over `spread` from now or later; history stays.

        Left out and reported as `blocked by #id`: rows whose dedupe key is active, and all but the newest of a key.
        Raises InvalidTransition for a single id that is refused.
        """

        def one_batch(batch: Sequence[int], moved: Moved) -> None:
            rows = moving.redrive(self.run_sql, ids=batch, spread=spread, not_before=not_before)
            moved.changed |= {row[0]: row[1] for row in rows}
            self._wake({row[2] for row in rows if row[1] == Status.PENDING})

        return self._move(ids, "redrive", one_batch)

    def edit_payload(
        self, job_id: int, payload: str, payload_bytes: int, *, updated_at: datetime, lease_epoch: int
    ) -> str | None:
        """Give a dead letter another payload (JSON text that was checked), if its row is still as it was seen.

        Returns the payload before, as JSON text; None where the job has changed meanwhile. Raises InvalidTransition
        where another transaction keeps it locked.
        """
        told = {"id": job_id, "payload": payload, "payload_bytes": payload_bytes}
        try:
            with transaction.atomic(using=self.write_db), self._impatient():
                rows = self.run_sql(sql.EDIT_PAYLOAD, told | {"updated_at": updated_at, "lease_epoch": lease_epoch})
        except DatabaseError as error:
            if settling.sqlstate(error) not in RETRIED:
                raise
            raise InvalidTransition(job_id, None, "edit", f"it {_why_refused(error, locked=True)}") from error
        return rows[0][0] if rows else None

    def edit_payloads(self, ids: Iterable[int], edit: PayloadEdit, *, path: Sequence[str], to: Sequence[str]) -> Moved:
        """Change one field in the payloads of dead letters, whatever `edit` makes of each; see PayloadEdit.

        The value of that field before goes to `edit.before`. Where it moves from `path`, it moves to `to`.
        """

        def one_batch(batch: Sequence[int], moved: Moved) -> None:
            fresh: dict[int, str | None] = {}
            for job_id, job_type, payload in self.run_sql(sql.LOCK_PAYLOADS, {"ids": list(batch)}):
                why = edit.judge(job_id, job_type, payload, fresh)
                if why is not None:
                    moved.refused[job_id] = why
            if fresh:
                told = {"ids": list(fresh), "fresh": list(fresh.values()), "path": list(path), "to_path": list(to)}
                edit.before.update(self.run_sql(sql.EDIT_PAYLOADS, told))
                moved.changed |= dict.fromkeys(fresh, int(Status.DEAD))

        return self._move(ids, "edit", one_batch)

    def discard(self, ids: int | Iterable[int], *, reason: str = "") -> Moved:
        """Discard dead letters, keeping the reason. Raises InvalidTransition for a single id that is not one."""

        def one_batch(batch: Sequence[int], moved: Moved) -> None:
            done = moving.discard(self.run_sql, ids=batch, reason=reason)
            moved.changed |= dict.fromkeys(done, int(Status.CANCELLED))

        return self._move(ids, "discard", one_batch)

    def release_stuck(self, ids: int | Iterable[int], *, reason: str = "") -> Moved:
        """Give stuck running jobs back, uncharged; whatever their old workers still send is refused.

        A job with a cancel request becomes CANCELLED. Raises InvalidTransition for a single id that is not stuck.
        """
        return self._take_from_worker(ids, "release", reason, dead=False)

    def mark_dead(self, ids: int | Iterable[int], *, reason: str = "") -> Moved:
        """Make dead letters of stuck running jobs; whatever their old workers still send is refused.

        A job with a cancel request becomes CANCELLED. Raises InvalidTransition for a single id that is not stuck.
        """
        return self._take_from_worker(ids, "mark dead", reason, dead=True)

    def _take_from_worker(self, ids: int | Iterable[int], wanted: str, reason: str, *, dead: bool) -> Moved:
        def one_batch(batch: Sequence[int], moved: Moved) -> None:
            rows = moving.release_stuck(self.run_sql, ids=batch, reason=reason, dead=dead)
            moved.changed |= {row[0]: row[1] for row in rows}
            due = {queue for _, status, _, queue in rows if status == Status.PENDING}
            told = dead and bool(rows) and bool(get_settings().NOTIFIERS)
            self._wake(due | ({INTERNAL_QUEUE} if told else set()))
            tell_workers(connections[self.write_db], {worker_id for _, _, worker_id, _ in rows if worker_id})

        return self._move(ids, wanted, one_batch)

    def _wake(self, queues: set[str]) -> None:
        if queues:
            wake_after_commit(connections[self.write_db], queues)

    def _move(self, ids: int | Iterable[int], wanted: str, one_batch: Callable[[Sequence[int], Moved], None]) -> Moved:
        single = isinstance(ids, int)
        wanted_ids = [ids] if isinstance(ids, int) else sorted(set(ids))
        moved = Moved()
        for start in range(0, len(wanted_ids), BATCH):
            self._move_batch(wanted_ids[start : start + BATCH], moved, one_batch)
        moving.explain_refused(self.run_sql, ids=wanted_ids, moved=moved, wanted=wanted)
        if single and moved.refused:
            status = self.using(self.write_db).filter(pk=wanted_ids[0]).values_list("status", flat=True).first()
            refused = moved.refused[wanted_ids[0]]
            known = Status(status) if status in Status.values else None
            blocked = refused if status is not None and not (known and refused.startswith("is ")) else ""
            raise InvalidTransition(wanted_ids[0], known, wanted, blocked)
        return moved

    def _move_batch(self, ids: Sequence[int], moved: Moved, one_batch: Callable[[Sequence[int], Moved], None]) -> None:
        """Move one batch in a savepoint; where a key was taken meanwhile or a row stays locked, halve it."""
        try:
            with transaction.atomic(using=self.write_db), self._impatient():
                one_batch(ids, moved)
        except DatabaseError as error:
            locked = settling.sqlstate(error) in RETRIED
            if not (locked or settling.is_of_a_row(error)):
                raise
            if len(ids) == 1:
                moved.refused[ids[0]] = _why_refused(error, locked=locked)
                return
            middle = len(ids) // 2
            self._move_batch(ids[:middle], moved, one_batch)
            self._move_batch(ids[middle:], moved, one_batch)

    @contextmanager
    def _impatient(self) -> Iterator[None]:
        """Wait for locks no longer than LOCK_TIMEOUT within, and leave the caller's transaction as it was."""
        with connections[self.write_db].cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT]
            )
            before = cursor.fetchone()[0]
            yield  # after an error the rollback to the savepoint restores it
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])

    def prune(self, *, status: Status, age: timedelta, limit: int = BATCH, keep: Sequence[int] = ()) -> list[int]:
        """Delete one batch of finished jobs of one status that are older than an age. Returns the ids.

        Raises ValueError for a status that is not finished. See jobqueue.maintenance.prune for the whole job.
        """
        if status not in (Status.DONE, Status.DEAD, Status.CANCELLED):
            msg = f"only DONE, DEAD and CANCELLED jobs are pruned, not {Status(status).name}"
            raise ValueError(msg)
        return moving.prune(self.run_sql, status=status, age=age, limit=limit, keep=keep)

    def counts(self, cap: int | None = 10_000) -> dict[Status, int]:
        """Return the number of jobs by status, each up to a cap (None: exact, by a scan)."""
        return {Status(row[0]): row[1] for row in self.run_sql(sql.COUNT_JOBS, {"cap": cap})}

    def ops(self, *, fresh: bool = False) -> Snapshot:
        """Return the figures of the moment, cheap at any size; see jobqueue.ops.snapshot.

        Callers of one process share one look for a second; `fresh` ones get their own.
        """
        from jobqueue.ops.snapshot import take_snapshot  # noqa: PLC0415  (the one import that points up)

        return take_snapshot(self, fresh=fresh)

    def ping(self) -> bool:
        """Return True when the jobs' database answers. Raises OperationalError when it does not."""
        with connections[self.write_db].cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone() == (1,))
