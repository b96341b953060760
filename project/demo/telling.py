"""Print what happens: a line of counts a second, each dead letter with its cause, each retry that succeeded."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from django.db.models import Sum

from jobqueue.models import Job
from jobqueue.states import Status

SHOWN = (Status.DONE, Status.DEAD, Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.CANCELLED)
ERROR_CHARACTERS = 130


def counts_line(counts: dict[Status, int]) -> str:
    """Return `done N dead N pending N running N scheduled N cancelled N`."""
    return " ".join(f"{status.name.lower()} {counts.get(status, 0)}" for status in SHOWN)


def is_settled(counts: dict[Status, int]) -> bool:
    """Tell whether every job has ended."""
    return not any(counts.get(status) for status in (Status.PENDING, Status.RUNNING, Status.SCHEDULED))


def cost_line() -> str:
    """Return how many jobs there are and what they cost."""
    total = Job.objects.aggregate(cost=Sum("cost_total"))["cost"] or 0
    return f"{Job.objects.count()} jobs, cost {total:.4f} USD"


@dataclass(slots=True)
class Teller:
    """Says each thing once."""

    started: float = field(default_factory=time.monotonic)
    _told: set[int] = field(default_factory=set)
    _last: str = ""

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"{time.monotonic() - self.started:5.1f} s  {text}", flush=True)

    def look(self) -> dict[Status, int]:
        """Print what is new, and the counts when they have changed; return these."""
        # What is set up for the console (scene.py) is told of in the end.
        documents = Job.objects.exclude(job_type__startswith="demo.").exclude(pk__in=self._told).order_by("id")
        for job in documents.filter(status=Status.DEAD):
            self._tell(
                job, f"dead letter after {_attempts(job)}: {job.get_outcome_display()}: {_first_line(job.last_error)}"
            )
        for job in documents.filter(status=Status.DONE, attempts__gt=1):
            self._tell(job, f"done at attempt {job.attempts}; before that: {_first_line(job.last_error)}")
        counts = Job.objects.counts(cap=None)
        if (line := counts_line(counts)) != self._last:
            self.say(line)
            self._last = line
        return counts

    def _tell(self, job: Job, text: str) -> None:
        self._told.add(job.pk)
        self.say(f"  #{job.pk} {job.job_type} {Path(job.payload['path']).name}: {text}")


def _attempts(job: Job) -> str:
    return "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"


def _first_line(text: str | None) -> str:
    line = (text or "-").strip().partition("\n")[0]
    return line if len(line) <= ERROR_CHARACTERS else f"{line[:ERROR_CHARACTERS]}…"
