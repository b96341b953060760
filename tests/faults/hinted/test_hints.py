"""How soon a job starts when hints are broken, and that nothing else differs."""

from jobqueue.models import Job, Worker
from jobqueue.outcomes import Outcome
from tests.faults.hints import HintChanger
from tests.faults.measured import Recovery
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.test_waking import started_after
from tests.worker.waiting import until

from .conftest import LATE_SECONDS

POLL_SECONDS = 5
SLACK_SECONDS = 1.5


def test_only_the_latency_differs(
    hints: str,
    changer: HintChanger | None,
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    recovery: Recovery,
) -> None:
    """C167: at once but for late hints, which take as long as they are late, and none at all, which take a poll."""
    latest = {"none": POLL_SECONDS, "late": LATE_SECONDS}.get(hints, 0) + SLACK_SECONDS
    worker = launch("--processes", "1", POLL_SECONDS=POLL_SECONDS, LEASE_SECONDS=30)
    if hints != "none":
        until(lambda: Worker.objects.filter(idle_since__isnull=False).exists(), what="an idle worker")
    lines = worker.log.count("\n")

    waits = [started_after(wait_for(enqueue("ok"))) for _ in range(3)]
    jobs = finished([job for job in Job.objects.enqueue_many([("probe.ok", {})] * 200) if job])

    recovery(f"a job starts, hints: {hints}", max(waits), within=latest)
    assert {(job.outcome, job.attempts) for job in jobs} == {(Outcome.DONE, 1)}
    assert worker.log.count("\n") - lines <= 1, worker.log
    if changer is not None:
        assert changer.changed >= 3
