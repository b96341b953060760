"""django-q2 on its ORM broker: a cluster that polls; a finished job is deleted from the queue, and kept as a result."""

from __future__ import annotations

from . import postgres
from .django_peer import DjangoPeer, in_seconds

NOOP = f"{__package__}.tally.mark"  # named by its path, as its documents do


class Peer(DjangoPeer):
    """`manage.py qcluster`: a pusher, a monitor and its workers. No bulk API."""

    site = "django_q2"
    packages = ("django-q2", "Django", "psycopg")
    settings = {
        "default": "qcluster, ORM broker: a process a core, 1 job a claim, polls every 0.2 s, 250 results kept",
        "tuned": "qcluster, ORM broker: bulk 50, queue_limit 200, poll 0.02 s, no results kept, no recycling",
    }
    bulk_size = None
    command = ("qcluster",)

    def setup(self) -> None:
        super().setup()
        self._enqueued = 0

    def enqueue(self, number: int) -> None:
        from django_q.tasks import async_task

        async_task(NOOP, number)
        self._enqueued += 1

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        # A job for later is a row of another table, which its scheduler moves to the queue one by one.
        from django_q.models import Schedule

        due = in_seconds(seconds)
        rows = (
            Schedule(func=NOOP, args=f"({number},)", schedule_type=Schedule.ONCE, next_run=due, repeats=-1)
            for number in numbers
        )
        Schedule.objects.bulk_create(rows, batch_size=1_000)

    def waiting(self) -> int:
        return postgres.count("django_q_ormq", "lock <= now()")

    def finished(self) -> int:
        # A job leaves the queue when its result was taken; a failed one stays to be tried again.
        return self._enqueued - postgres.count("django_q_ormq")
