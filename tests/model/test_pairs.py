"""Each verb against each verb on one row, in lock-step: the second comes while the first has not committed.

What happens then is what the model says: a verb that waits finds the row as the first left it, so that the outcome is
that of one after the other; a verb that does not wait steps over the row, and does and answers the same as if it had
come upon a row that somebody else has in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest

from jobqueue.managers import Done, Ending, Fence, Release, leasing, settling
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import WAIT_SECONDS, Watcher
from tests.worker.waiting import until

from .arena import Arena, Reading, read
from .comparing import compare
from .jobs import DEAD, DONE, Locked
from .machine import JobMachine, new_machine
from .model import Model
from .steps import LATER, LEASE, answer_of
from .walks import walk

pytestmark = pytest.mark.django_db(transaction=True)

SPEC: dict[str, Any] = {"job_type": "probe.ok", "queue": "one", "priority": 100, "dedupe_key": "k", "max_attempts": 2}
Answer = Callable[[Model, int, Any], Any]


@dataclass(frozen=True)
class Verb:
    """One verb on one job, as the manager does it and as the model does it (for a side, given the real answer)."""

    name: str
    real: Callable[[], Any]
    modelled: Answer


def leased_verbs(fence: Fence) -> dict[str, Verb]:
    """Return the verbs that need a lease, sent by the worker of the fence."""
    run, worker, item = Job.objects.run_sql, fence.worker_id, (fence.id, fence.lease_epoch)
    cut = partial(Ending, *item, Outcome.INTERRUPTED, "interrupt", error_class="Cut", error_text="cut off")
    noted = {item: {"percent": 50, "message": ""}}

    def renew() -> dict[int, tuple[str, bool]]:
        renewals = leasing.renew(run, worker_id=worker, held=[(*item, None)], lease=LEASE)
        return {renewal.id: (renewal.verdict, renewal.cancel) for renewal in renewals}

    def ended(**ending: Any) -> Ending:
        return Ending(*item, Outcome.FAILED, error_class="Boom", error_text="boom", **ending)

    def settled(end: Callable[[], Ending]) -> tuple[Callable[[], Any], Answer]:
        real = partial(settling.settle_ended, run, worker_id=worker)
        return lambda: real(endings=[end()]), lambda model, side, _: model.settle_ended(side, worker, [end()])

    def released(release: Release) -> tuple[Callable[[], Any], Answer]:
        real = partial(leasing.release, run, worker_id=worker, releases=[release])
        return real, lambda model, side, _: model.release(side, worker, [release])

    done = Done(*item, '{"n": 1}')
    return {
        verb.name: verb
        for verb in (
            Verb("renew", renew, lambda model, side, _: model.renew(side, worker, [(*item, None)])),
            Verb(
                "settle_done",
                partial(settling.settle_done, run, worker_id=worker, jobs=[done]),
                lambda model, side, _: model.settle_done(side, worker, [done], {"n": 1}),
            ),
            Verb("fail", *settled(partial(ended, delay=LATER))),
            Verb("die", *settled(partial(ended, step="dead"))),
            Verb("interrupt", *settled(cut)),
            Verb("release", *released(Release(*item))),
            Verb("snooze", *released(Release(*item, LATER))),
            Verb(
                "strays",
                partial(leasing.release_strays, run, worker_id=worker, held=[]),
                lambda model, side, _: model.release_strays(side, worker, []),
            ),
            Verb(
                "progress",
                partial(leasing.write_progress, run, worker_id=worker, progress=noted),
                lambda model, side, _: model.progress(side, worker, noted),
            ),
        )
    }


def other_verbs(job_id: int) -> dict[str, Verb]:
    """Return the verbs that need no lease."""

    def moved(verb: str, *model_args: Any, **how: Any) -> Verb:
        def real() -> Any:
            report = getattr(Job.objects, verb)([job_id], **how)
            return report.changed, {one: _plain(text) for one, text in report.refused.items()}

        def modelled(model: Model, side: int, _: Any) -> Any:
            changed, refused = getattr(model, verb)(side, [job_id], *model_args)
            if any("is locked" in text for text in refused.values()):
                raise Locked
            return changed, {one: _plain(text) for one, text in refused.items()}

        return Verb(verb, real, modelled)

    def claim() -> list[tuple[int, int]]:
        return [(job.pk, job.lease_epoch) for job in Job.objects.claim(worker_id="w2", queues=["one"], lease=LEASE)]

    def enqueue() -> int | None:
        job = Job.objects.enqueue(**SPEC)
        return None if job is None else job.pk

    def enqueued(model: Model, side: int, answer: Any) -> Any:
        [free] = model.enqueue(side, [({**SPEC, "delay": None}, answer)])
        return answer if free else None

    def pruned(status: int) -> Verb:
        prune = partial(Job.objects.prune, status=Status(status), age=timedelta(0))
        return Verb(
            f"prune_{Status(status).name.lower()}", prune, lambda model, side, _: model.prune(side, status, 0, 9)
        )

    verbs = (
        Verb("claim", claim, lambda model, side, _: model.claim(side, "w2", ["one"], 1, None)),
        Verb("reap", Job.objects.reap, lambda model, side, _: model.reap(side, 9)),
        Verb("promote", Job.objects.promote, lambda model, side, _: model.promote(side, 9)),
        Verb("enqueue", enqueue, enqueued),
        pruned(DONE),
        pruned(DEAD),
        moved("cancel", "", reason=""),
        moved("redrive", 0, spread=timedelta(0)),
        moved("discard", "", reason=""),
        moved("release_stuck", "", reason=""),
    )
    return {verb.name: verb for verb in verbs}


def _plain(text: str) -> str:
    """A key that was found held and one that was taken meanwhile are one reason."""
    return "key held" if "blocked by" in text or "taken meanwhile" in text else text


HELD = "renew settle_done fail die interrupt release snooze strays progress cancel"
#: A way to a state, and the verbs that mean something to a job in it.
STATES = {
    "due": ("enqueue", "claim cancel enqueue promote"),
    "scheduled": ("enqueue-for-later time", "promote cancel enqueue claim"),
    "leased": ("enqueue claim", f"{HELD} enqueue reap release_stuck"),
    "expired": ("enqueue claim renew time", f"{HELD} reap release_stuck claim"),
    "asked": ("enqueue claim cancel time", f"{HELD} reap release_stuck"),
    "last": (
        "enqueue-for-one-attempt claim time",
        "settle_done fail interrupt reap release_stuck enqueue cancel redrive",
    ),
    "dead": ("enqueue claim die", "redrive discard prune_dead enqueue cancel claim die"),
    "done": ("enqueue claim complete", "prune_done settle_done renew cancel enqueue"),
}


QUICK = ("due", "scheduled")


@pytest.mark.parametrize(
    "state", [state if state in QUICK else pytest.param(state, marks=pytest.mark.faults) for state in STATES]
)
def test_of_two_verbs_at_once_the_outcome_is_as_the_model_says(
    state: str, patient_arena: Arena, watcher: Watcher
) -> None:
    """Every pair, in both orders, where the first commits and where it rolls back."""
    machine = new_machine(patient_arena)
    way, names = STATES[state]
    for first, second, commits in product(names.split(), names.split(), (True, False)):
        one = machine()
        walk(one, way)
        fence = one.fences[-1] if one.fences else Fence(next(iter(one.last.jobs)), "w1", 1)
        verbs = leased_verbs(fence) | other_verbs(fence.id)
        try:
            play(one, watcher, verbs[first], verbs[second], commits=commits)
        except AssertionError as error:
            error.add_note(f"{state}: {first} {'commits' if commits else 'rolls back'}, {second} comes meanwhile")
            raise
        finally:
            one.teardown()


def play(machine: JobMachine, watcher: Watcher, first: Verb, second: Verb, *, commits: bool) -> None:
    """Let the second verb come while the first is not committed, then end the first."""
    holder, comer = machine.arena.sides
    model = machine.model
    holder.begin()
    model.begin(0)
    early = answer_of(lambda: holder.call(first.real))
    seen: Reading = holder.call(read)
    model.before, model.after = machine.last.at, seen.at
    assert early == answer_of(lambda: first.modelled(model, 0, early)), f"{first.name} answered {early}"
    compare(model, 0, seen)

    coming = comer.start(lambda: answer_of(second.real))
    until(lambda: coming.done() or watcher.blockers(comer.pid), within=WAIT_SECONDS, what="done, or blocked")
    waited = not coming.done()
    holder.end(commit=commits)
    late = coming.result(WAIT_SECONDS)

    found = read()
    model.before, model.after = seen.at, found.at
    meet(model, second, late, commits=commits, waited=waited)
    compare(model, None, found)


def meet(model: Model, second: Verb, late: Any, *, commits: bool, waited: bool) -> None:
    """Have the second verb in the model, too; fail where it answered or waited otherwise."""
    meanwhile = deepcopy(model.committed)
    expected = answer_of(lambda: second.modelled(model, 1, late))
    assert waited == (expected == "locked"), f"{second.name} {'waited' if waited else 'did not wait'}"
    if waited:
        model.committed = meanwhile
    model.commit(0) if commits else model.rollback(0)
    if waited:
        expected = answer_of(lambda: second.modelled(model, 1, late))
    assert late == expected, f"{second.name} answered {late}, expected {expected}"
