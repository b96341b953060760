"""Work and who does it: queues, job types, workers, stuck jobs, dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from jobqueue import __version__, sql
from jobqueue.exceptions import JobQueueError
from jobqueue.internal import INTERNAL_QUEUE, is_internal
from jobqueue.models import GroupNote
from jobqueue.ops.queue_figures import QueueFigures
from jobqueue.ops.queues import paused_queues
from jobqueue.ops.worker_figures import WorkerFigures
from jobqueue.registry import registry
from jobqueue.states import ACTIVE, Status

from .findings import Finding, Told
from .looking import Look, finding

SAMPLE: Final = 1_000


def queues(look: Look) -> Told:
    """Look for queues with due jobs that nobody takes, and for pauses; how many jobs there are may stay unknown."""
    figures = look.figures("queues.paused", "workers")
    names = [name for (name,) in look.ask(sql.PENDING_QUEUES)]
    depths = {queue.queue: queue for queue in figures.queues}
    living = any(worker.alive and not worker.stopping for worker in figures.workers)
    found = [] if living else [finding("no_worker", f"{len(figures.workers)} are registered")]
    pauses = {pause.name: pause for pause in look.read(lambda: paused_queues(look.alias))}
    for name in names:
        paused = any(pause.holds(name) for pause in pauses.values())
        if living and not paused and not any(worker.serves(name) for worker in figures.workers):
            found.append(finding("queue_unserved", _depth(depths.get(name)), name))
    for pause in pauses.values():
        until = f"until {pause.resumes_at.isoformat(' ', 'minutes')}" if pause.resumes_at else "until it is resumed"
        why = f": {pause.reason}" if pause.reason else ""
        found.append(finding("queue_paused", f"by {pause.paused_by} {until}{why}", pause.name))
    return Told(f"{len(names)} queues with due jobs", found)


def _depth(queue: QueueFigures | None) -> str:
    if queue is None or queue.depth is None:
        return "jobs are due, nobody could count them in time"
    more = "at least " if queue.depth_capped else ""
    return f"{more}{queue.depth} jobs, the oldest due for {queue.oldest_sec or 0:.0f} s"


def types(look: Look) -> Told:
    """Look up the types of the jobs that are next, of the newest, and of the newest dead letters."""
    jobs = look.manager.using(look.alias).values_list("job_type", "status", "pk")
    due = jobs.filter(status=Status.PENDING).order_by("queue", "priority", "run_after", "id")[:SAMPLE]
    dead = jobs.filter(status=Status.DEAD).order_by("-status", "-finished_at", "-id")[:SAMPLE]
    samples: list[list[tuple[str, int, int]]] = [
        look.read(partial(list, rows)) for rows in (due, jobs.order_by("-id")[:SAMPLE], dead)
    ]
    open_ = {*ACTIVE, Status.DEAD}
    seen = {job_id: name for sample in samples for name, status, job_id in sample if status in open_}
    counts, examples = Counter(seen.values()), {name: job_id for job_id, name in seen.items()}
    found = [
        finding("type_unknown", f"{jobs_seen} of the {len(seen)} open jobs looked at", name)
        for name, jobs_seen in sorted(counts.items())
        if not is_internal(name) and not _is_known(look, name, examples[name])
    ]
    return Told(f"{len(counts)} types among {len(seen)} open jobs looked at", found)


def workers(look: Look) -> Told:
    """Look at each worker: heard of, claiming, listening, of this version."""
    found = [each for worker in look.figures("workers").workers for each in _worker(look, worker)]
    living = sum(worker.alive for worker in look.snapshot.workers)
    return Told(f"{living} alive, this is jobqueue {__version__}", found)


def jobs(look: Look) -> Told:
    """Look for stuck jobs, and for dead letters that nobody has taken in hand."""
    stuck = look.figures("stuck_running").stuck_running
    found = [finding("jobs_stuck", f"{stuck} jobs")] if stuck else []
    dead = look.manager.using(look.alias).filter(status=Status.DEAD).exclude(queue=INTERNAL_QUEUE)
    newest = dead.order_by("-status", "-finished_at", "-id").values_list("job_type", "fingerprint")[:SAMPLE]
    groups = Counter((name, mark or "") for name, mark in look.read(lambda: list(newest)))
    noted = set(_noted(look)) if groups else set()
    untouched = {group: number for group, number in groups.items() if group not in noted}
    if untouched:
        (name, _), most = max(untouched.items(), key=lambda item: item[1])
        text = f"{sum(untouched.values())} in {len(untouched)} groups, most ({most}) of type {name}"
        more = f"; only the newest {SAMPLE} were looked at" if sum(groups.values()) >= SAMPLE else ""
        found.append(finding("dead_letters", f"{text}{more}"))
    return Told(f"{stuck} stuck, {sum(groups.values())} dead", found)


def _noted(look: Look) -> Iterator[tuple[str, str]]:
    for note in look.read(lambda: list(GroupNote.objects.using(look.alias).order_by("pk")[:10_000])):
        if note.assignee or note.note or note.muted_until is not None:
            yield note.job_type, note.fingerprint


def _is_known(look: Look, name: str, example: int) -> bool:
    if name in registry:
        return True
    payloads = look.manager.using(look.alias).filter(pk=example).values_list("payload", flat=True)
    try:  # a task of django.tasks is known by the path that its payload names
        registry.resolve(name, next(iter(look.read(partial(list, payloads))), {}))
    except JobQueueError:
        return False
    return True


def _worker(look: Look, worker: WorkerFigures) -> Iterator[Finding]:
    settings = look.settings
    if not worker.alive:
        yield finding(
            "worker_silent", f"last heard of {worker.heartbeat_age_sec:.0f} s ago, on {worker.host}", worker.worker_id
        )
        return
    if not worker.stopping and (worker.claim_age_sec or 0) > settings.READY_CLAIM_SECONDS:
        yield finding("worker_hangs", f"claimed last {worker.claim_age_sec:.0f} s ago", worker.worker_id)
    if settings.NOTIFY and worker.listening is False:
        yield finding("worker_deaf", f"on {worker.host}", worker.worker_id)
    if worker.version and worker.version != __version__:
        yield finding("worker_version", f"{worker.version}, not {__version__}", worker.worker_id)
    if settings.RELEASE and worker.release != settings.RELEASE:
        yield finding("worker_release", f"{worker.release or 'none'}, not {settings.RELEASE}", worker.worker_id)
