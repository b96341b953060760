"""What a running handler reports, costs and progress, is kept whatever becomes of its attempt; people are told."""

import json
from decimal import Decimal
from pathlib import Path

from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import until


def test_costs_of_every_attempt_count(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C122: 0.10 of a failed one, 0.05 of a killed one, 0.20 of the good one make 0.35."""
    launch("--processes", "1")

    done = wait_for(enqueue("costs"))

    assert (done.cost_total, done.cost_last) == (Decimal("0.35"), Decimal("0.20"))
    assert [each["cost"] for each in done.attempt_history()] == [Decimal("0.10"), Decimal("0.05"), Decimal("0.20")]
    assert [attempt.outcome for attempt in done.attempt_rows.order_by("number")] == [Outcome.FAILED, Outcome.CRASHED]
    lines = Cost.objects.filter(job_type="probe.costs").values_list("component", "amount")
    assert sum(amount for _, amount in lines) == Decimal("0.35")
    assert {component for component, _ in lines} == {"tokens", "result"}


def test_progress_is_stored_and_outlives_the_attempt(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1")
    job = enqueue("progress", seconds=1.6)
    expected = {"percent": 40, "message": "nearly half"}
    until(lambda: Job.objects.get(pk=job.pk).progress == expected, within=3, what="progress while it runs")

    dead = wait_for(job, Status.DEAD)

    assert dead.progress == expected


def test_statistics_count_every_attempt_once(launch: Launch, enqueue: Enqueue) -> None:
    launch()
    finished([enqueue("ok") for _ in range(30)] + [enqueue("boom_in", text="boom") for _ in range(5)])

    rows = Stat.objects.filter(job_type__in=["probe.ok", "probe.boom_in"])
    until(lambda: sum(row.jobs for row in rows.all()) == 40)
    counts = {(row.job_type, row.outcome): [0, 0] for row in rows}
    for row in rows:
        counts[row.job_type, row.outcome][0] += row.jobs
        counts[row.job_type, row.outcome][1] += row.dead
    assert counts == {("probe.ok", Outcome.DONE): [30, 0], ("probe.boom_in", Outcome.FAILED): [10, 5]}


def test_a_dead_letter_is_told_by_log_mail_and_function(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, tmp_path: Path
) -> None:
    """The owner gets the mail; the notification is a job of its own, in the same transaction."""
    notifiers = "jobqueue.notifiers.LogNotifier,jobqueue.notifiers.EmailNotifier,tests.probe.telling.tell"
    worker = launch(
        env={
            "PROBE_MAIL": str(tmp_path / "mail"),
            "JOBQUEUE_NOTIFIERS": notifiers,
            "PROBE_TOLD": str(tmp_path / "told"),
        }
    )
    job = enqueue("boom", text="the reason", _max_attempts=1, _owner="owner@example.com")

    wait_for(job, Status.DEAD)

    until(lambda: Job.objects.filter(job_type="jobqueue.notify", status=Status.DONE).exists(), what=lambda: worker.log)
    worker.says(f"job needs attention job_id={job.pk} job_type=probe.boom queue=default reason=dead outcome=failed")
    (mail,) = [path.read_text() for path in (tmp_path / "mail").iterdir()]
    assert "To: owner@example.com" in mail
    assert "the reason" in mail
    told = json.loads((tmp_path / "told").read_text())
    assert (told["job_id"], told["reason"], told["outcome"], told["attempts"]) == (job.pk, "dead", Outcome.FAILED, 1)


def test_a_notifier_that_fails_is_tried_again_and_never_told_of(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """Its own failure makes no further notification."""
    worker = launch(NOTIFIERS="tests.probe.telling.fail")
    wait_for(enqueue("boom", _max_attempts=1), Status.DEAD)
    notice = Job.objects.get(job_type="jobqueue.notify")

    until(lambda: Attempt.objects.filter(job=notice).exists(), what=lambda: worker.log)

    assert Attempt.objects.filter(job=notice).first().error_text == "the mail server is down"
    assert Job.objects.filter(job_type="jobqueue.notify").count() == 1
