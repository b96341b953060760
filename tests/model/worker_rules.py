"""The rules of the state machine in which jobs are enqueued, claimed, kept and settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jobqueue.errors import describe
from jobqueue.managers import CostLine, Done, Ending, Fence, Release, Span, leasing
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .jobs import DONE
from .steps import LATER, LEASE, MOST_JOBS, Steps, fences, few, several_fences, sides, specs, workers


class WorkerRules(Steps):
    """What enqueuers and workers do."""

    def _may_grow(self) -> bool:
        return len(self.model.view(None)) < MOST_JOBS

    # -- enqueue --------------------------------------------------------------------------------------------------

    @precondition(_may_grow)
    @rule(side=sides, spec=specs, door=st.sampled_from(["enqueue", "get_or_enqueue"]))
    def enqueue(self, side: int, spec: dict[str, Any], door: str) -> None:
        if door == "enqueue" or spec["dedupe_key"] is None:
            self.step("enqueue", side, lambda: _id(Job.objects.enqueue(**_call(spec))), partial(self._one, side, spec))
            return

        def real() -> tuple[int, bool]:
            job, created = Job.objects.get_or_enqueue(**_call(spec))
            return job.pk, created

        def modelled(answer: Any) -> Any:
            job_id = answer[0] if isinstance(answer, tuple) else None
            holder = self.model.holder(side, spec["dedupe_key"])
            [free] = self.model.enqueue(side, [(spec, job_id)])
            return (job_id, True) if free else (holder.id, False)

        self.step("enqueue", side, real, modelled)

    def _one(self, side: int, spec: dict[str, Any], answer: Any) -> Any:
        [free] = self.model.enqueue(side, [(spec, answer if isinstance(answer, int) else None)])
        return answer if free and isinstance(answer, int) else None

    @precondition(_may_grow)
    @rule(side=sides, many=st.lists(specs, min_size=1, max_size=4))
    def enqueue_many(self, side: int, many: list[dict[str, Any]]) -> None:
        def modelled(answer: Any) -> Any:
            ids = answer if isinstance(answer, list) else [None] * len(many)
            free = self.model.enqueue(side, list(zip(many, ids, strict=True)))
            assert [job_id is not None for job_id in ids] == free, f"enqueue_many answered {ids}, free were {free}"
            return answer

        jobs = [_call(spec) for spec in many]
        self.step("enqueue", side, lambda: [_id(job) for job in Job.objects.enqueue_many(jobs)], modelled)

    # -- leases ---------------------------------------------------------------------------------------------------

    @rule(
        side=sides,
        worker=workers,
        queues=st.sampled_from([["one"], ["two"], ["one", "two"], ["two", "one"]]),
        limit=few,
        types=st.sampled_from([None, None, ["probe.echo"]]),
        by_worker=st.booleans(),
    )
    def claim(
        self, side: int, worker: str, queues: list[str], limit: int, types: list[str] | None, by_worker: bool
    ) -> None:
        def real() -> list[tuple[int, int]]:
            if by_worker and types is None:
                spans = [Span(queue, limit) for queue in queues]
                claim = partial(leasing.claim, Job.objects.run_sql, spans=spans, total=limit)
                return [(job.id, job.lease_epoch) for job in claim(worker_id=worker, lease=LEASE)]
            jobs = Job.objects.claim(limit, worker_id=worker, queues=queues, lease=LEASE, job_types=types)
            return [(job.pk, job.lease_epoch) for job in jobs]

        claimed = self.step("claim", side, real, lambda _: self.model.claim(side, worker, queues, limit, types))
        self.fences += [Fence(job_id, worker, epoch) for job_id, epoch in claimed]

    def _leased(self) -> bool:
        return bool(self.fences)

    @precondition(_leased)
    @rule(side=sides, picks=several_fences, began=st.sampled_from([None, 0.5]))
    def renew(self, side: int, picks: list[tuple[int, str]], began: float | None) -> None:
        worker = self.fence(picks[0]).worker_id
        held = [(fence.id, fence.lease_epoch, began) for fence in self.several(picks)]

        def real() -> dict[int, tuple[str, bool]]:
            renewals = leasing.renew(Job.objects.run_sql, worker_id=worker, held=held, lease=LEASE)
            return {renewal.id: (renewal.verdict, renewal.cancel) for renewal in renewals}

        self.step("renew", side, real, lambda _: self.model.renew(side, worker, held))

    @precondition(_leased)
    @rule(side=sides, pick=fences)
    def renew_one(self, side: int, pick: tuple[int, str]) -> None:
        fence = self.fence(pick)

        def modelled(answer: Any) -> Any:
            verdict = self.model.renew(side, fence.worker_id, [(fence.id, fence.lease_epoch, None)])[fence.id]
            return "LeaseLost" if verdict[0] == "lost" else [(fence.id, *verdict)]

        self.step("renew", side, lambda: list(map(tuple, Job.objects.renew_lease(fence, lease=LEASE))), modelled)

    @precondition(_leased)
    @rule(side=sides, pick=fences, percent=st.integers(0, 100))
    def progress(self, side: int, pick: tuple[int, str], percent: int) -> None:
        fence = self.fence(pick)
        noted = {(fence.id, fence.lease_epoch): {"percent": percent, "message": ""}}
        write = partial(leasing.write_progress, worker_id=fence.worker_id, progress=noted)
        self.step(
            "progress",
            side,
            lambda: write(Job.objects.run_sql),
            lambda _: self.model.progress(side, fence.worker_id, noted),
        )

    @precondition(_leased)
    @rule(side=sides, pick=fences, cents=st.lists(st.integers(-50, 900), min_size=1, max_size=2))
    def write_costs(self, side: int, pick: tuple[int, str], cents: list[int]) -> None:
        """Write down what a running attempt has cost so far, as the heartbeat does."""
        fence = self.fence(pick)
        lines = [CostLine(f"part {number}", "USD", Decimal(amount) / 100) for number, amount in enumerate(cents)]
        spent: dict[tuple[int, int], Sequence[CostLine]] = {(fence.id, fence.lease_epoch): lines}
        write = partial(leasing.write_costs, worker_id=fence.worker_id, costs=spent)
        self.step(
            "write costs",
            side,
            lambda: write(Job.objects.run_sql),
            lambda _: self.model.write_costs(side, fence.worker_id, spent),
        )

    @precondition(_leased)
    @rule(side=sides, picks=several_fences, single=st.booleans(), fails=st.sampled_from([None, "retry", "dead"]))
    def settle_by_manager(self, side: int, picks: list[tuple[int, str]], single: bool, fails: str | None) -> None:
        """Job.objects.complete() and fail(): of fences of several workers, or of a single one, which raises."""
        fences = [self.fence(picks[0])] if single else self.several(picks)
        given = fences[0] if single else fences
        dead, repeats = fails == "dead", (DONE,) if fails is None else tuple(Status)
        described = describe(RuntimeError("boom"), max_bytes=1_000)
        texts: dict[str, Any] = {"error_class": described.error_class, "error_text": described.text}

        def real() -> Any:
            if fails is None:
                return Job.objects.complete(given, {"n": 1})
            return Job.objects.fail(given, "boom", dead=dead, delay=LATER)

        def settle(worker: str, items: list[Fence]) -> dict[int, int]:
            if fails is None:
                dones = [Done(item.id, item.lease_epoch) for item in items]
                return self.model.settle_done(side, worker, dones, {"n": 1})
            step = "dead" if dead else "retry"
            endings = [Ending(item.id, item.lease_epoch, Outcome.FAILED, step, delay=LATER, **texts) for item in items]
            return self.model.settle_ended(side, worker, endings)

        self._by_worker("complete" if fails is None else "fail", side, fences, single, real, settle, repeats)

    @precondition(_leased)
    @rule(side=sides, picks=several_fences, single=st.booleans(), delay=st.sampled_from([None, LATER]))
    def release(self, side: int, picks: list[tuple[int, str]], single: bool, delay: timedelta | None) -> None:
        fences = [self.fence(picks[0])] if single else self.several(picks)
        given = fences[0] if single else fences

        def give_back(worker: str, items: list[Fence]) -> dict[int, int]:
            return self.model.release(side, worker, [Release(item.id, item.lease_epoch, delay) for item in items])

        self._by_worker(
            "release", side, fences, single, lambda: Job.objects.release(given, delay=delay), give_back, repeats=()
        )

    def _by_worker(
        self,
        verb: str,
        side: int,
        fences: Sequence[Fence],
        single: bool,
        real: Callable[[], Any],
        settle: Callable[[str, list[Fence]], dict[int, int]],
        repeats: Sequence[int],
    ) -> None:
        """Take a step that settles a group of each worker, one statement a group; what came before a lock stays."""

        def modelled(answer: Any) -> Any:
            statuses: dict[int, int] = {}
            for worker in dict.fromkeys(fence.worker_id for fence in fences):
                statuses |= settle(worker, [fence for fence in fences if fence.worker_id == worker])
            for fence in fences:
                before = self.model.accepted_before(side, fence) if fence.id not in statuses else None
                if before is not None and before in repeats:
                    statuses[fence.id] = before
            return "LeaseLost" if single and not statuses else statuses

        self.step(verb, side, real, modelled)


def _id(job: Job | None) -> int | None:
    return None if job is None else job.pk


def _call(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of enqueue() for a spec, whose delay is in seconds."""
    terms = {name: value for name, value in spec.items() if name != "delay"}
    return terms if spec["delay"] is None else {**terms, "run_after": timedelta(seconds=spec["delay"])}
