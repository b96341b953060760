"""The state machine: Hypothesis picks verbs and sides, manager and model both do them, and the tables must agree.

Every rule can also be called by hand, which is how the directed walk reaches each change without luck.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from django.db import connection, transaction
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from jobqueue import operations
from jobqueue.children.context import Context
from jobqueue.exceptions import LeaseLost
from jobqueue.maintenance.fold import Fold
from jobqueue.managers import Done, Ending, Moved, Release, leasing
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.worker.settle import STILL_LOCKED, Settler

from .arena import Arena
from .jobs import CANCELLED, DEAD, DONE, PENDING, RUNNING, SCHEDULED, Locked, Opening
from .model import Refusals
from .steps import ENDS, RELEASES, ends, fences, few, passing, people, reasons, sides, specs, targets, workers
from .worker_rules import WorkerRules

ACTOR = "somebody"
Pick = tuple[int, str]


class JobMachine(WorkerRules):
    """What the worker's own thread, maintenance, people and time do."""

    @initialize(many=st.lists(specs, min_size=2, max_size=6), worker=workers, limit=st.integers(0, 3))
    def start(self, many: list[dict[str, Any]], worker: str, limit: int) -> None:
        """Begin with some jobs, of which some are leased: most rules need one."""
        self.enqueue_many(0, many)
        self.claim(1, worker, ["one", "two"], limit, None, by_worker=True)

    # -- the worker's settle --------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.fences))
    @rule(side=sides, batch=ends)
    def settle(self, side: int, batch: list[tuple[Pick, str, Any]]) -> None:
        """Settle a batch of any ends as the worker does, which halves it where the database refuses one."""
        if side in self.model.open:
            return  # a worker has no transaction around a settle
        worker = self.fence(batch[0][0]).worker_id
        named = {self.fence(pick).id: (self.fence(pick), kind, lines) for pick, kind, lines in batch}
        items = [(fence, kind, _end(fence.id, fence.lease_epoch, kind, lines)) for fence, kind, lines in named.values()]

        def real() -> tuple[dict[int, int], set[int]]:
            thread: Any = SimpleNamespace(session=SimpleNamespace(run=Job.objects.run_sql))
            held: Any = SimpleNamespace(verdict=None, settled=None)
            settler = Settler(thread, held, worker_id=worker, verdicts=held)
            pairs: Any = [
                (SimpleNamespace(fence=(fence.id, fence.lease_epoch)), deepcopy(end)) for fence, _, end in items
            ]
            settled = settler._settle(pairs)
            return settled.statuses, settled.locked

        def modelled(_: Any) -> tuple[dict[int, int], set[int]]:
            statuses: dict[int, int] = {}
            for fence, kind, end in items:
                try:
                    statuses |= self._settle_one(side, worker, kind, end)
                except Locked:
                    statuses[fence.id] = STILL_LOCKED
                before = self.model.accepted_before(side, (fence.id, worker, fence.lease_epoch))
                if fence.id not in statuses and before is not None and not isinstance(end, Release):
                    statuses[fence.id] = before
            return statuses, {job_id for job_id, status in statuses.items() if status == STILL_LOCKED}

        self.step("settle", side, real, modelled)

    def _settle_one(self, side: int, worker: str, kind: str, end: Done | Ending | Release) -> dict[int, int]:
        """Settle one end in the model, with what the worker makes of texts that cannot be stored."""
        if isinstance(end, Release):
            return self.model.release(side, worker, [end])
        if isinstance(end, Ending):
            if kind == "error not storable":
                end.error_text = "the error's text cannot be stored"
            return self.model.settle_ended(side, worker, [end])
        if kind == "done":
            return self.model.settle_done(side, worker, [end], {"n": 2})
        refused = Ending(end.id, end.lease_epoch, Outcome.FAILED, run_seconds=end.run_seconds, costs=end.costs)
        refused.error_class = "jobqueue.exceptions.ResultError"
        refused.error_text = Opening("the result cannot be stored: ")
        return self.model.settle_ended(side, worker, [refused])

    @precondition(lambda self: bool(self.fences))
    @rule(side=sides, pick=fences, rolls_back=st.booleans())
    def complete_within(self, side: int, pick: Pick, rolls_back: bool) -> None:
        """Finish by context.complete(), in the handler's own transaction, which may still roll back."""
        fence = self.fence(pick)
        began = time.monotonic()

        def real() -> str:
            work: Any = SimpleNamespace(id=fence.id, lease_epoch=fence.lease_epoch)
            nobody: Any = SimpleNamespace()
            context = Context(work, fence.worker_id, nobody)
            with transaction.atomic():
                context.complete()
                if rolls_back:
                    transaction.set_rollback(True)
            return "completed"

        def modelled(_: Any) -> str:
            saved = deepcopy(self.model.written(side))
            done = self.model.complete_within(side, fence, slack=time.monotonic() - began + 0.01)
            if rolls_back and side in self.model.open:
                self.model.open[side] = saved
            elif rolls_back:
                self.model.committed = saved
            return "completed" if done else LeaseLost.__name__

        self.step("complete", side, real, modelled)

    @rule(side=sides, worker=workers, known=targets)
    def release_strays(self, side: int, worker: str, known: list[int]) -> None:
        """Give back what a worker does not know of, as it does when it has reconnected."""
        ids = self.ids(side, known, (RUNNING,))
        give_back = partial(leasing.release_strays, worker_id=worker, held=ids)
        self.step(
            "release strays",
            side,
            lambda: sorted(give_back(Job.objects.run_sql)),
            lambda _: self.model.release_strays(side, worker, ids),
        )

    # -- maintenance ----------------------------------------------------------------------------------------------

    @rule(side=sides, limit=few, passes=passing)
    def reap(self, side: int, limit: int, passes: int = 0) -> None:
        self.grow_older(passes)
        self.step("reap", side, lambda: Job.objects.reap(limit), lambda _: self.model.reap(side, limit))

    @rule(side=sides, limit=few, passes=passing)
    def promote(self, side: int, limit: int, passes: int = 0) -> None:
        self.grow_older(passes)
        self.step(
            "promote",
            side,
            lambda: sorted(Job.objects.promote(limit)),
            lambda _: sorted(self.model.promote(side, limit)),
        )

    @rule(side=sides, status=st.sampled_from([DONE, DEAD, CANCELLED]), age=st.sampled_from([0, 3_600]), limit=few)
    def prune(self, side: int, status: int, age: int, limit: int) -> None:
        prune = partial(Job.objects.prune, status=Status(status), age=timedelta(seconds=age), limit=limit)
        self.step("prune", side, lambda: sorted(prune()), lambda _: sorted(self.model.prune(side, status, age, limit)))

    # -- people ---------------------------------------------------------------------------------------------------

    def _move(
        self, verb: str, side: int, by_person: bool, picks: Sequence[int], statuses: Sequence[int], **how: Any
    ) -> None:
        """Move jobs by the manager, or by the audited operation of the same effect."""
        ids = self.ids(side, picks, statuses)
        reason, spread = how.get("reason", ""), how.get("spread", timedelta(0))
        operation = {"redrive": "retry", "release_stuck": "release"}.get(verb, verb)

        def real() -> Any:
            if by_person:
                report = getattr(operations, operation)(ids, actor=ACTOR, **{"reason": reason} | how)
                return report.changed, report.refused
            moved: Moved = getattr(Job.objects, verb)(ids, **how)
            return moved.changed, moved.refused

        def modelled(_: Any) -> tuple[Any, Refusals]:
            term = spread.total_seconds() if verb == "redrive" else reason
            changed, refused = getattr(self.model, verb)(side, ids, term)
            if by_person and changed:
                self.model.written(side).actions.append((ACTOR, operation, reason, tuple(sorted(changed))))
            return (sorted(changed) if by_person else changed), refused

        self.step(verb, side, real, modelled)

    @rule(side=sides, by_person=people, picks=targets, reason=reasons)
    def cancel(self, side: int, by_person: bool, picks: list[int], reason: str) -> None:
        self._move("cancel", side, by_person, picks, (PENDING, RUNNING, SCHEDULED), reason=reason)

    @rule(side=sides, by_person=people, picks=targets, seconds=st.sampled_from([0, 0, 1_000]))
    def redrive(self, side: int, by_person: bool, picks: list[int], seconds: int) -> None:
        self._move("redrive", side, by_person, picks, (DEAD,), spread=timedelta(seconds=seconds))

    @rule(side=sides, by_person=people, picks=targets, reason=reasons)
    def discard(self, side: int, by_person: bool, picks: list[int], reason: str) -> None:
        self._move("discard", side, by_person, picks, (DEAD,), reason=reason)

    @rule(side=sides, by_person=people, picks=targets, reason=reasons, passes=passing)
    def release_stuck(self, side: int, by_person: bool, picks: list[int], reason: str, passes: int = 0) -> None:
        self.grow_older(passes)
        self._move("release_stuck", side, by_person, picks, (RUNNING,), reason=reason)

    # -- time, transactions, locks --------------------------------------------------------------------------------

    @precondition(lambda self: not self.model.open)
    @rule(seconds=st.sampled_from([900, 1_800, 90_000]))
    def pass_time(self, seconds: int) -> None:
        """Let time pass, and fold statistics and costs as maintenance does: no sum changes."""
        self.grow_older(seconds)
        self.step("fold", 0, lambda: Fold(Job.objects.run_sql).run_once() and None, lambda _: None)

    @precondition(lambda self: len(self.model.open) < len(self.arena.sides))
    @rule(side=sides)
    def begin(self, side: int) -> None:
        """Open a transaction: what this side does from now on is its own until it commits."""
        if side not in self.model.open:
            self.arena.sides[side].begin()
            self.model.begin(side)

    @precondition(lambda self: bool(self.model.open))
    @rule(side=sides, commits=st.sampled_from([True, True, False]))
    def end(self, side: int, commits: bool) -> None:
        """Commit or roll back."""
        if side in self.model.open:
            self.arena.sides[side].end(commit=commits)
            self.model.commit(side) if commits else self.model.rollback(side)
            self.between()

    @precondition(lambda self: bool(self.model.open))
    @rule(side=sides)
    def lose_connection(self, side: int) -> None:
        """Lose a connection in its transaction: nothing of that has happened."""
        if side in self.model.open:
            self.arena.sides[side].lose()
            self.model.rollback(side)
            self.between()

    @precondition(lambda self: bool(self.model.open))
    @rule(side=sides, pick=st.integers(0, 5), strength=st.sampled_from(["UPDATE", "SHARE", "KEY SHARE"]))
    def lock_row(self, side: int, pick: int, strength: str) -> None:
        """Lock a row as somebody's code might: FOR UPDATE, or FOR KEY SHARE as a foreign key to it does."""
        [job_id] = self.ids(side, [pick], (PENDING, RUNNING))
        wanted = "UPDATE" if strength == "UPDATE" else "NO KEY UPDATE"
        if side not in self.model.open or job_id not in self.model.view(side):
            return
        if self.model.locked(side, job_id, wanted):
            return  # it would wait

        def lock() -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT FROM jobqueue_job WHERE id = %s FOR {strength}", [job_id])

        self.arena.sides[side].call(lock)
        self.model.lock(side, job_id, strength)
        self.between()


def new_machine(arena: Arena) -> type[JobMachine]:
    """Return a machine that counts for itself."""
    return type("Machine", (JobMachine,), {"arena": arena, "changed": Counter(), "taken": Counter()})


def _end(job_id: int, epoch: int, kind: str, lines: Any) -> Done | Ending | Release:
    """Return what a worker would settle."""
    if kind in RELEASES:
        return Release(job_id, epoch, costs=lines, **ENDS[kind])
    if kind in ("done", "result not storable"):
        return Done(job_id, epoch, '{"n": 2}' if kind == "done" else '"\\u0000"', run_seconds=0.5, costs=lines)
    return Ending(job_id, epoch, run_seconds=0.5, costs=lines, **ENDS[kind])
