"""Settle ended jobs in batches, on a thread of its own, so that claiming and settling overlap.

While one batch is being settled the next one gathers. A batch goes out when it is full, when its oldest has waited
five milliseconds, or at once when nothing else runs. A settle that finds the database away is tried again while the
lease lasts: the work was done, and must not be done again for a lost write. What of a batch was settled before an
error has its verdict, and the rest goes behind what waits.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from django.db import DatabaseError, DataError

from jobqueue.errors import describe
from jobqueue.logs import Quietly
from jobqueue.managers import Done, Ending, Release, leasing, settling
from jobqueue.outcomes import Outcome

from .holding import Held, HeldJobs, boottime

if TYPE_CHECKING:
    from .threads import DatabaseThread
    from .verdicts import Verdicts

logger = logging.getLogger("jobqueue.worker")

End = Done | Ending | Release
FULL = 500
MOST_BYTES = 16 * 1024 * 1024  # of results in one statement: the server takes no message of a gigabyte
LINGER_SECONDS = 0.005  # how long an end waits for others, where jobs are short; where they are longer, ...
LINGER_RUNS, LONGEST_LINGER_SECONDS = 6, 0.03  # ... as long as so many take: else every settle has two or three ends
AGAIN_SECONDS = 0.5
LOCKED_SECONDS = 0.25
STILL_LOCKED = 0  # no status has this number


class Settled(NamedTuple):
    """What one batch came to: the status of each job that was settled, and the jobs whose rows others have locked.

    `stopped` is the error that ended it before it was through: what has no status may not have been tried.
    """

    statuses: dict[int, int]
    locked: set[int]
    stopped: Exception | None = None


class Settler:
    """Gathers ends, settles them, and tells each job's verdict: its status, or None when it was refused."""

    def __init__(
        self,
        thread: DatabaseThread,
        held: HeldJobs,
        *,
        worker_id: str,
        verdicts: Verdicts,
    ) -> None:
        self._thread, self._held, self._worker_id = thread, held, worker_id
        self._verdict, self._settled = verdicts.verdict, verdicts.settled
        self._waiting: list[tuple[Held, End]] = []
        self._locked: list[tuple[Held, End]] = []  # their rows are locked by others: apart, so that they hold up nobody
        self._since = self._not_before = self._locked_at = 0.0
        self.mean_seconds: Callable[[], float | None] = lambda: None  # of a run, of late
        self._quietly = Quietly(logger)
        self.give_up_at: float | None = None  # monotonic; set when the worker stops

    def __len__(self) -> int:
        return len(self._waiting) + len(self._locked)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be settled and nothing is being settled."""
        return not (self._waiting or self._locked or self._thread.busy)

    def add(self, held: Held, end: End) -> None:
        """Take the end of a job."""
        held.ended = True
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append((held, end))

    def next_at(self) -> float | None:
        """Return when pump() should be called at the latest."""
        if self._thread.busy:
            return None
        times = [max(self._since + self._linger, self._not_before)] if self._waiting else []
        times += [self._locked_at] if self._locked else []
        return min(times, default=None)

    def pump(self, *, nothing_runs: bool) -> None:
        """Settle what waits, if it is time."""
        if self._thread.busy:
            return
        now = time.monotonic()
        due = nothing_runs or len(self._waiting) >= FULL or now - self._since >= self._linger
        if self._waiting and now >= self._not_before and due:
            count = self._batch_size()
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._since = now
            self._submit(batch)
        elif self._locked and now >= self._locked_at:
            self._locked_at = now + LOCKED_SECONDS
            self._submit([self._locked.pop(0)])

    @property
    def _linger(self) -> float:
        return min(max(LINGER_SECONDS, LINGER_RUNS * (self.mean_seconds() or 0.0)), LONGEST_LINGER_SECONDS)

    def _batch_size(self) -> int:
        """Return how many of those that wait go into one batch: one at least."""
        size = 0
        for number, (_, end) in enumerate(self._waiting[: 2 * FULL]):
            if type(end) is Done:
                size += len(end.result)
                if size > MOST_BYTES:
                    return max(1, number)
        return 2 * FULL

    def _submit(self, batch: list[tuple[Held, End]]) -> None:
        self._thread.submit(
            lambda: self._settle(batch),
            lambda result, error: self._answered(batch, result, error),
            keep_trying=lambda: self._worth_trying(batch),
        )

    def _worth_trying(self, batch: Sequence[tuple[Held, End]]) -> bool:
        if self.give_up_at is not None and time.monotonic() > self.give_up_at:
            return False
        return any(held.lease_end > boottime() for held, _ in batch)

    # -- on the database thread -----------------------------------------------------------------------------------

    def _settle(self, batch: Sequence[tuple[Held, End]]) -> Settled:
        settled: dict[int, int] = {}
        stopped = None
        try:
            self._settle_into(settled, batch)
        except DatabaseError as error:
            # What was committed has its verdict, or it would be tried again with the others until their leases end.
            if all(status == STILL_LOCKED for status in settled.values()):
                raise
            stopped = error
        locked = {job_id for job_id, status in settled.items() if status == STILL_LOCKED}
        return Settled(settled, locked, stopped)

    def _settle_into(self, settled: dict[int, int], batch: Sequence[tuple[Held, End]]) -> None:
        run, worker_id = self._thread.session.run, self._worker_id
        dones = [end for _, end in batch if isinstance(end, Done)]
        endings = [end for _, end in batch if isinstance(end, Ending)]
        releases = [end for _, end in batch if isinstance(end, Release)]
        if dones:
            settling.settle_split(
                lambda items: settling.settle_done(run, worker_id=worker_id, jobs=items),
                dones,
                refuse=self._refuse_done,
                into=settled,
            )
        if endings:
            self._settle_endings(endings, into=settled)
        if releases:
            settling.settle_split(
                lambda items: leasing.release(run, worker_id=worker_id, releases=items),
                releases,
                refuse=self._refuse_release,
                into=settled,
            )
        missing = [held.fence for held, end in batch if end.id not in settled and not isinstance(end, Release)]
        if missing:
            settled |= settling.accepted_before(run, worker_id=worker_id, items=missing)

    def _settle_endings(self, endings: Sequence[Ending], *, into: dict[int, int] | None = None) -> dict[int, int]:
        run = self._thread.session.run
        return settling.settle_split(
            lambda items: settling.settle_ended(run, worker_id=self._worker_id, endings=items),
            endings,
            refuse=self._refuse_ending,
            into=into,
        )

    def _refuse_done(self, done: Done, error: Exception) -> dict[int, int]:
        """Book a result that the database cannot store as a failed attempt that says so."""
        if not isinstance(error, DataError):
            return {done.id: STILL_LOCKED}
        described = describe(error, max_bytes=1000)
        text = f"the result cannot be stored: {described.text}"
        failed = Ending(
            done.id,
            done.lease_epoch,
            Outcome.FAILED,
            "retry",
            error_class="jobqueue.exceptions.ResultError",
            error_text=text,
            fingerprint="result-not-storable",
            run_seconds=done.run_seconds,
            cpu_seconds=done.cpu_seconds,
            costs=done.costs,
        )
        return self._settle_endings([failed])

    def _refuse_ending(self, ending: Ending, error: Exception) -> dict[int, int]:
        """Book an attempt whose texts the database cannot store without them."""
        if not isinstance(error, DataError):
            return {ending.id: STILL_LOCKED}
        if ending.fingerprint == "error-not-storable":
            raise error
        ending.error_text, ending.traceback, ending.fingerprint = (
            "the error's text cannot be stored",
            "",
            "error-not-storable",
        )
        return self._settle_endings([ending])

    def _refuse_release(self, release: Release, error: Exception) -> dict[int, int]:
        if isinstance(error, DataError):
            raise error
        return {release.id: STILL_LOCKED}

    # -- in the main loop -----------------------------------------------------------------------------------------

    def _answered(self, batch: Sequence[tuple[Held, End]], result: Settled | None, error: Exception | None) -> None:
        if result is None:
            kept = self._kept(batch, error)
            if error is not None and settling.is_timeout(error):
                # Of locked rows, perhaps: the others first, and these in another order, or the same ones stopped it.
                random.shuffle(kept)
                self._waiting += kept
            else:
                self._waiting = kept + self._waiting
            self._not_before = time.monotonic() + AGAIN_SECONDS
            self._settled()
            return
        locked = [pair for pair in batch if pair[1].id in result.locked]
        left = [pair for pair in batch if pair[1].id not in result.statuses] if result.stopped else []
        put_off = {end.id for _, end in (*locked, *left)}
        answered = [pair for pair in batch if pair[1].id not in put_off]
        self._held.remove(*[held for held, _ in answered])
        for held, end in answered:
            self._verdict(held, end, result.statuses.get(end.id))
        if locked:
            self._locked += self._kept(locked, "row locked or refused")
            self._locked_at = time.monotonic() + LOCKED_SECONDS
        if left:
            self._waiting += self._kept(left, result.stopped)
        self._settled()

    def _kept(self, batch: Sequence[tuple[Held, End]], error: object) -> list[tuple[Held, End]]:
        """Return what is worth another try; the others' leases are over, and another worker's run decides."""
        hopeless = self.give_up_at is not None and time.monotonic() > self.give_up_at
        kept = [] if hopeless else [pair for pair in batch if pair[0].lease_end > boottime()]
        text = str(error).strip().split("\n")[0]
        self._quietly.warning("settle failed jobs=%s kept=%s error=%s", len(batch), len(kept), text)
        ids = {end.id for _, end in kept}
        for held, end in batch:
            if end.id not in ids:
                self._held.give_up(held)
                self._verdict(held, end, None)
        return kept
