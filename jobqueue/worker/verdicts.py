"""What the database said of the jobs held here: a settle's verdict on each, and what renewals found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers import Ending, Release, Renewal
from jobqueue.outcomes import LIMIT_OUTCOMES, Outcome
from jobqueue.states import Status

from .endings import new_ending
from .holding import Held

if TYPE_CHECKING:
    from .settle import End
    from .supervisor import Supervisor


class Verdicts:
    """Tells a worker's parts what has become of their jobs, in the main loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def verdict(self, held: Held, end: End, status: int | None) -> None:
        """Take the status that a settled job has now, None where its end was refused."""
        worker = self._supervisor
        worker.reports.verdict(held, end, status)
        if isinstance(end, Release) and held.started is None and not held.own:  # those were never counted
            worker.dispatch.refund()
        if isinstance(end, Ending) and (status in (Status.PENDING, Status.DEAD) or end.outcome in LIMIT_OUTCOMES):
            # The job itself, or the notice of it, is due, and nobody else was told.
            worker.dispatch.wake([held.job.queue, INTERNAL_QUEUE])

    def settled(self) -> None:
        """Take note that a batch has its verdicts: in a drain, the jobs that ended may have enqueued others."""
        if self._supervisor.options.drain:
            self._supervisor.dispatch.look_again()

    def heard(self, answers: list[tuple[Held, Renewal]]) -> None:
        """Take what a renewal said of the runs it asked for: leases lost, cancels requested."""
        worker = self._supervisor
        for held, renewal in answers:
            # Settled meanwhile, and perhaps claimed again: what was said is not of that later run.
            if held.ended or worker.held.get(*held.fence) is not held:
                continue
            if renewal.verdict == "lost":
                worker.stops.lose(held)
            elif renewal.cancel and not worker.stops.cancel(held):
                worker.settler.add(held, _cancelled(held))


def _cancelled(held: Held) -> Ending:
    ending = new_ending(held, Outcome.CANCELLED, "cancel")
    ending.error_text = "cancelled before its handler began"
    return ending
