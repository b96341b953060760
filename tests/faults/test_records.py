"""What is written down of a job that went wrong, however hard that is to write; and hooks of the project that fail."""

import signal
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

ROW_BYTES = 64 * 1024
KINDS = {
    "frame": ("RuntimeError", "in a strange place"),
    "talkative": ("odd\\x00module.Na\\x00me\\ud800", "a\\x00b\\ud800"),
    "recursion": ("RecursionError", "maximum recursion depth exceeded"),
    "huge": ("RuntimeError", "bytes cut"),
    "huge_wide": ("RuntimeError", "\U0001f40c\\x00"),
    "group": ("ExceptionGroup", "many (2000 sub-exceptions)"),
    "connected": ("tests.probe.records.Connected", "connected"),
}
TIMES = {"huge": 1, "huge_wide": 1}


def stored_bytes() -> list[int]:
    """Return how many bytes the texts of each attempt take, before compression."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT octet_length(error_text) + octet_length(traceback) + octet_length(error_class)"
            " + octet_length(fingerprint) FROM jobqueue_attempt"
        )
        return [row[0] for row in cursor.fetchall()]


def test_a_failure_that_is_hard_to_tell_is_stored_like_any_other(launch: Launch, enqueue: Enqueue) -> None:
    """C15, C17, C154: NUL and surrogates in text, class and frames; 50 MB; 900 deep; what nothing can pickle."""
    worker = launch()
    failing = {kind: [enqueue("hard_to_tell", kind=kind) for _ in range(TIMES.get(kind, 3))] for kind in KINDS}
    others = [enqueue("ok") for _ in range(10)]

    for kind, (error_class, text) in KINDS.items():
        for job in finished(failing[kind], within=60):
            assert (job.status, job.outcome, job.attempts) == (Status.DEAD, Outcome.FAILED, 2), kind
            assert job.error_class == error_class
            assert text in job.last_error
            assert [row.outcome for row in job.attempt_rows.all()] == [Outcome.FAILED] * 2
    frame = Attempt.objects.filter(job=failing["frame"][0]).first()
    assert "na\\x00me" in frame.traceback
    assert "fi\\x00le\\ud800.py" in frame.traceback
    assert max(stored_bytes()) < ROW_BYTES
    assert {job.status for job in finished(others)} == {Status.DONE}
    assert worker.code is None


def test_thirty_attempts_with_long_traces_stay_small_and_can_be_read(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, admin_client: Client
) -> None:
    """C154: the error list of a job that failed thirty times with 200 KB of traceback each."""
    launch("--processes", "1", MAINTENANCE_SECONDS=0.05)
    job = enqueue("long_traces")

    dead = wait_for(job, Status.DEAD, within=60)

    assert dead.attempt_rows.count() == 30
    assert max(stored_bytes()) < ROW_BYTES
    assert all("bytes cut" in row.traceback and "step_0" in row.traceback for row in dead.attempt_rows.all())
    page = admin_client.get(reverse("admin:jobqueue_job_change", args=[job.pk]))
    assert page.status_code == 200
    assert len(page.content) < 1_000_000
    newest = dead.attempt_rows.last()
    assert admin_client.get(reverse("admin:jobqueue_attempt_change", args=[newest.pk])).status_code == 200


def test_hooks_of_the_project_that_fail_change_no_verdict(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C20: receivers of every signal, commit hooks and notifiers raise; each job ends as it would without them."""
    worker = launch(
        env={"PROBE_RECEIVERS": "raise", "JOBQUEUE_NOTIFIERS": "tests.probe.telling.fail"},
        LIMITS={"probe.killed_by_itself": {"duration": 5}},
    )
    worker.may_show_tracebacks = True  # the receivers' own, which are logged with it
    good, bad = enqueue("ok"), enqueue("boom_in", text="boom")
    discarded, killed = enqueue("discard"), enqueue("killed_by_itself", _max_attempts=1)
    hooked = enqueue("commit_hook_in_effect", name="kept")

    assert wait_for(good).attempts == 1
    assert wait_for(bad, Status.DEAD).last_error == "boom"
    assert wait_for(discarded, Status.CANCELLED).outcome == Outcome.DISCARDED
    assert wait_for(killed, Status.DEAD).outcome == Outcome.CRASHED

    dead = wait_for(hooked, Status.DEAD)
    assert (dead.attempts, dead.last_error) == (2, "hook boom")
    assert set(Group.objects.values_list("name", flat=True)) == {"kept-1", "kept-2"}, "what was committed stays"
    for job, times in ((good, 2), (bad, 4), (discarded, 2), (killed, 2), (hooked, 4)):
        line = f"signal receiver failed receiver=raise_always job_id={job.pk} error=receiver boom"
        worker.says(line, times=times)
        assert worker.log.count(line) == times, "once for each signal"
    notices = Attempt.objects.filter(job__job_type="jobqueue.notify")
    until(lambda: set(notices.values_list("error_text", flat=True)) == {"the mail server is down"})
    Job.objects.cancel(list(Job.objects.filter(job_type="jobqueue.notify").values_list("pk", flat=True)))
    assert wait_for(enqueue("ok")).attempts == 1


def test_a_worker_whose_own_signals_fail_starts_works_and_ends(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C20: worker_started and worker_stopped, which the supervisor itself sends."""
    worker = launch("--processes", "1", env={"PROBE_RECEIVERS": "raise"})
    worker.may_show_tracebacks = True
    wait_for(enqueue("ok"))

    worker.stop(signal.SIGTERM)

    assert worker.ends() == 0
    for arguments in ("['worker_id']", "['exit_code', 'worker_id']"):
        line = f"Error calling raise_for_worker in Signal.send_robust() (worker receiver boom: {arguments})"
        assert worker.log.count(line) == 1


def test_costs_of_a_dead_job_count_and_one_too_large_is_refused_where_it_is_reported(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C122, C124: a job that never succeeds has cost what its attempts cost; an amount too large fails its attempt."""
    launch("--processes", "1")

    spent = wait_for(enqueue("spends", amounts=["0.10", "0.0000004"], _max_attempts=2), Status.DEAD)
    refused = wait_for(enqueue("spends", amounts=["1", "1000000000000"], _max_attempts=1), Status.DEAD)

    def told(job: Any) -> list[str]:
        return [f"{row.cost:f}" for row in job.attempt_rows.order_by("number")]

    assert (told(spent), f"{spent.cost_total:f}") == (["0.10000040"] * 2, "0.20000080")
    assert (told(refused), f"{refused.cost_total:f}") == (["1.00000000"], "1.00000000")
    assert "a cost is from 0 to below 10^12" in refused.last_error
