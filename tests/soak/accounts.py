"""The account at the end of a soak: every job is there, has ended, and its end is explained by what really ran."""

from collections import Counter
from collections.abc import Iterator, Sequence

from django.contrib.auth.models import Group
from django.db.models import Count, F, Sum

from jobqueue.models import Attempt, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import FINISHED, Status
from tests.faults.servers import PrivateServer
from tests.worker.conftest import busiest_second
from tests.worker.effects import Effects

from .fleet import Fleet
from .load import PATIENT, Load

SHOWN = 5
ALWAYS_WELL = ("probe.ok", "probe.mark", "probe.sleep", "probe.flaky", "probe.snooze_once", "probe.complete")


def violations(load: Load, effects: Effects) -> Iterator[str]:
    """Say what does not add up in the tables."""
    yield from _lost(load)
    yield from _not_ended()
    yield from _wrong_ends()
    yield from _unexplained_runs(effects)
    yield from _counted_twice()
    yield from _effects_once(load)


def _some(what: str, found: Sequence[object]) -> Iterator[str]:
    if found:
        yield f"{what}: {len(found)}, such as {found[:SHOWN]}"


def _lost(load: Load) -> Iterator[str]:
    there = set(Job.objects.values_list("pk", flat=True))
    yield from _some("acknowledged jobs that are gone", sorted(set(load.acknowledged) - there))


def _not_ended() -> Iterator[str]:
    rows = Job.objects.exclude(status__in=FINISHED).values_list("pk", "job_type", "status", "worker_id")
    yield from _some("jobs that did not end", list(rows))
    over = Job.objects.filter(attempts__gt=F("max_attempts")).values_list("pk", "attempts")
    yield from _some("U8: jobs with more attempts than allowed", list(over))


def _wrong_ends() -> Iterator[str]:
    """What ends well by itself is done, unless somebody cancelled it."""
    rows = Job.objects.filter(job_type__in=ALWAYS_WELL, max_attempts=PATIENT, status=Status.DEAD)
    yield from _some("jobs that ended badly", list(rows.values_list("pk", "job_type", "outcome", "last_error")))
    done = Job.objects.filter(status=Status.DONE).exclude(outcome=Outcome.DONE)
    yield from _some("U3: done jobs of another outcome", list(done.values_list("pk", "outcome")))
    cancelled = Job.objects.filter(status=Status.CANCELLED)
    # One that failed after somebody had asked to cancel is no retry, and shows how its attempt ended.
    unasked = cancelled.filter(cancel_requested_at=None).exclude(outcome=Outcome.DISCARDED)
    wrong = unasked | cancelled.filter(outcome=Outcome.DONE)
    yield from _some("U3: cancelled jobs of another outcome", list(wrong.values_list("pk", "outcome")))


def _unexplained_runs(effects: Effects) -> Iterator[str]:
    """Each run that began is the accepted one or has an attempt row; each accepted run that should have ended did."""
    runs: dict[str, set[tuple[int, int]]] = {"start": set(), "end": set()}
    for row in effects.all():
        if row.event in runs:
            runs[row.event].add((row.job_id, row.lease_epoch))
    attempts = set(Attempt.objects.values_list("job_id", "lease_epoch"))
    done = set(Job.objects.filter(status=Status.DONE).values_list("pk", "lease_epoch"))
    snoozed = set(Job.objects.filter(job_type="probe.snooze_once").values_list("pk", flat=True))
    unexplained = [run for run in runs["start"] - attempts - done if run[0] not in snoozed]
    yield from _some("runs that nothing tells of", sorted(unexplained))
    marks = set(Job.objects.filter(job_type="probe.mark", status=Status.DONE).values_list("pk", "lease_epoch"))
    yield from _some("U3: done, but the accepted run did not end", sorted(marks - runs["end"]))
    yield from _some("accepted twice: done, and ended badly too", sorted(done & attempts))


def _counted_twice() -> Iterator[str]:
    """The statistics count each accepted end once."""
    counted = Counter(dict(Stat.objects.values_list("outcome").annotate(Sum("jobs"))))
    ended = Counter(dict(Attempt.objects.values_list("outcome").annotate(Count("pk"))))
    ended[int(Outcome.DONE)] += Job.objects.filter(status=Status.DONE).count()
    for outcome in sorted({*counted, *ended}):
        if counted[outcome] != ended[outcome]:
            yield f"{Outcome(outcome).name}: {counted[outcome]} counted, {ended[outcome]} accepted"


def _effects_once(load: Load) -> Iterator[str]:
    """What was committed together with the end of its job is there once, and without a done job it is not there."""
    there = Counter(name.partition("-")[0] for name in Group.objects.values_list("name", flat=True))
    done = set(Job.objects.filter(job_type="probe.complete", status=Status.DONE).values_list("pk", flat=True))
    wrong = [(pk, name, there[name]) for pk, name in load.effects_once if there[name] != int(pk in done)]
    yield from _some("effects in the job's own transaction that are not there exactly once", list(wrong))


def of_the_server(server: PrivateServer) -> Iterator[str]:
    """Say which connections outlive all workers."""
    rows = server.execute(
        "SELECT application_name, state FROM pg_stat_activity WHERE application_name LIKE 'jobqueue %'"
    )
    yield from _some("connections of workers that have ended", list(rows))


def of_the_logs(fleet: Fleet) -> Iterator[str]:
    """Say where a log shows a traceback, or too many lines in a second."""
    for worker in fleet.workers:
        log = worker.log
        if "Traceback" in log:
            at = log.index("Traceback")
            yield f"U7: a traceback: {log[max(0, at - 300) : at + 1500]}"
        if busiest_second(log) > 50:
            yield f"U7: {busiest_second(log)} lines in a second"
