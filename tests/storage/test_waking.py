"""Waking: who is notified, when, and how often (cases C64, C65, C67)."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobqueue import sql
from jobqueue.managers import waking
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import ago

pytestmark = pytest.mark.django_db(transaction=True)

Heard = Callable[[], list[str]]
MakeWorker = Callable[..., Any]


class Rollback(Exception):
    pass


@pytest.fixture
def idle(make_worker: MakeWorker) -> Any:
    """A worker of all queues that sleeps."""
    return make_worker(idle=True, queues=["*"])


def test_an_enqueue_wakes_an_idle_worker_with_the_name_of_the_queue(idle: Any, heard: Heard) -> None:
    Job.objects.enqueue("probe.ok", queue="mail")

    assert heard() == ["mail"]


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        ({"idle": True, "queues": ["default"]}, True),
        ({"idle": True, "queues": ["mail", "*"]}, True),
        ({"idle": True, "queues": ["mail"]}, False),
        ({"queues": ["default"]}, False),
        ({"idle": True, "queues": ["default"], "heartbeat_at": ago(90)}, False),
        (None, False),
    ],
    ids=["its queue", "all queues", "another queue", "busy", "killed in its sleep", "no worker"],
)
def test_only_an_idle_worker_of_that_queue_is_worth_a_notification(
    worker: dict[str, Any] | None, told: bool, make_worker: MakeWorker, heard: Heard
) -> None:
    """Guards: idle_since, the queues and the heartbeat, in the procedure and in both statements.

    NOTIFY serialises commits: none without a sleeper.
    """
    if worker is not None:
        make_worker(**worker)

    Job.objects.enqueue("probe.ok")
    at_once = heard()
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
    one = heard()
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
        Job.objects.enqueue("probe.ok", queue="elsewhere")

    assert at_once == one == (["default"] if told else [])
    assert ("default" in heard()) == told


def test_several_idle_workers_are_told_once(make_worker: MakeWorker, heard: Heard) -> None:
    for _ in range(3):
        make_worker(idle=True, queues=["default", "*"])

    Job.objects.enqueue("probe.ok")
    with transaction.atomic():
        for queue in ("default", "mail", "default"):
            Job.objects.enqueue("probe.ok", queue=queue)

    assert heard() == ["default", "default", "mail"]


def test_nobody_is_told_before_the_commit(idle: Any, heard: Heard) -> None:
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")

        assert heard() == []
    assert heard() == ["default"]


def test_nobody_is_told_of_what_was_rolled_back(idle: Any, heard: Heard) -> None:
    with suppress(Rollback), transaction.atomic():
        Job.objects.enqueue("probe.ok")
        raise Rollback

    assert heard() == []


def test_a_rolled_back_savepoint_takes_its_wake_up_with_it(idle: Any, heard: Heard) -> None:
    """Guard: a hook is joined only where its savepoints are those of the enqueue."""
    with transaction.atomic():
        Job.objects.enqueue("probe.ok", queue="outer")
        with suppress(Rollback), transaction.atomic():
            Job.objects.enqueue("probe.ok", queue="inner")
            raise Rollback

    assert heard() == ["outer"]


def test_an_enqueue_after_a_rolled_back_savepoint_still_wakes(idle: Any, heard: Heard) -> None:
    with transaction.atomic():
        with suppress(Rollback), transaction.atomic():
            Job.objects.enqueue("probe.ok")
            raise Rollback
        Job.objects.enqueue("probe.ok")

    assert heard() == ["default"]


def test_a_transaction_tells_each_queue_once(idle: Any, heard: Heard) -> None:
    """Case C65: at most one NOTIFY per transaction and queue, also over many savepoints."""
    with transaction.atomic():
        for _ in range(20):
            Job.objects.enqueue("probe.ok")
            with transaction.atomic():
                Job.objects.enqueue("probe.ok")
                Job.objects.enqueue("probe.ok", queue="mail")

    assert sorted(heard()) == ["default", "mail"]


def test_hooks_of_the_project_between_do_not_matter(idle: Any, heard: Heard) -> None:
    ran: list[int] = []
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
        for number in range(3):
            transaction.on_commit(partial(ran.append, number))
        Job.objects.enqueue("probe.ok")

    assert (heard(), ran) == (["default"], [0, 1, 2])


def test_a_bulk_enqueue_is_one_wake_up(idle: Any, heard: Heard) -> None:
    """Cases C64 and C110: 5,000 jobs, one hint of constant size."""
    Job.objects.enqueue_many([("probe.ok", {"x": "x" * 200}) for _ in range(5_000)])

    assert heard() == ["default"]


def test_a_large_payload_is_not_part_of_the_hint(idle: Any, heard: Heard) -> None:
    """Case C64: 8,000 bytes in a notification would make the enqueue itself fail."""
    Job.objects.enqueue("probe.ok", {"x": "x" * 200_000}, queue="q" * 63, dedupe_key="k" * 255)

    assert heard() == ["q" * 63]


@pytest.mark.parametrize(("delay", "told"), [(1.9, True), (2.1, False), (3600, False)])
def test_jobs_due_within_two_polls_wake_later_ones_do_not(delay: float, told: bool, idle: Any, heard: Heard) -> None:
    when = timedelta(seconds=delay)

    Job.objects.enqueue("probe.ok", run_after=when)
    one = heard()
    Job.objects.enqueue_many([{"job_type": "probe.ok", "run_after": when}])

    assert (one, heard()) == (["default"] * told, ["default"] * told)


def test_a_bulk_wakes_only_for_the_queues_that_got_something_due(idle: Any, heard: Heard, make_job: Any) -> None:
    make_job(dedupe_key="held")

    Job.objects.enqueue_many(
        [
            {"job_type": "probe.ok", "queue": "now"},
            {"job_type": "probe.ok", "queue": "later", "run_after": timedelta(hours=1)},
            {"job_type": "probe.ok", "queue": "held", "dedupe_key": "held"},
        ]
    )

    assert heard() == ["now"]


@pytest.mark.parametrize("block", [nullcontext, transaction.atomic], ids=["procedure", "hook"])
def test_only_the_hint_does_not_wait_for_the_disk(idle: Any, heard: Heard, block: Any) -> None:
    with block():
        Job.objects.enqueue("probe.ok", queue="mail")

    assert heard() == ["mail"]
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
        cursor.execute(sql.WAKE_QUEUE, {"channel": waking.CHANNEL, "queue": "mail"})
        assert cursor.fetchone() == ("", "off")


def test_a_held_key_wakes_nobody(idle: Any, heard: Heard, make_job: Any) -> None:
    make_job(dedupe_key="k")

    assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None
    assert heard() == []


def test_with_notify_off_nobody_is_asked_or_told(
    idle: Any, heard: Heard, settings: Any, django_assert_num_queries: Any, make_job: Any
) -> None:
    """Case C65: it can be turned off, and everything works by polling."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFY": False}
    running = make_job(status=Status.RUNNING)

    with django_assert_num_queries(1):
        Job.objects.enqueue("probe.ok")
    Job.objects.cancel(running.pk)

    assert heard() == []


def test_a_transaction_managed_by_hand_has_no_hook_and_leaves_it_to_the_poll(idle: Any, heard: Heard) -> None:
    connection.set_autocommit(False)
    try:
        Job.objects.enqueue("probe.ok")
        connection.commit()
    finally:
        connection.set_autocommit(True)

    assert heard() == []


@pytest.mark.parametrize(
    ("fields", "act"),
    [
        ({"status": Status.SCHEDULED, "run_after": ago(1)}, lambda job: Job.objects.promote()),
        ({"expired": True}, lambda job: Job.objects.reap()),
        ({"status": Status.DEAD}, lambda job: Job.objects.redrive([job.pk])),
    ],
    ids=["promote", "reap", "redrive"],
)
def test_what_makes_a_job_due_wakes(fields: dict[str, Any], act: Any, idle: Any, heard: Heard, make_job: Any) -> None:
    job = make_job(queue="mail", **fields)

    act(job)

    assert heard() == ["mail"]


def test_a_redrive_over_a_while_wakes_nobody_yet(idle: Any, heard: Heard, make_job: Any) -> None:
    Job.objects.redrive([make_job(status=Status.DEAD).pk], spread=timedelta(hours=1))

    assert heard() == []


def test_a_cancel_tells_the_worker_that_runs_the_job(heard: Heard, make_job: Any) -> None:
    """Bound: a second, so busy workers are told too; a worker of two such jobs is told once."""
    jobs = [make_job(status=Status.RUNNING, worker_id=worker) for worker in ("w1", "w1", "w2")]
    waiting = make_job()

    Job.objects.cancel([job.pk for job in (*jobs, waiting)])

    assert heard() == ["!cancel w1", "!cancel w2"]


def test_a_cancel_that_is_rolled_back_tells_nobody(heard: Heard, make_job: Any) -> None:
    job = make_job(status=Status.RUNNING)

    with suppress(Rollback), transaction.atomic():
        Job.objects.cancel(job.pk)
        raise Rollback

    assert heard() == []


def test_a_wake_up_that_fails_is_logged_and_the_job_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a hint: the enqueue has committed, so its failure must not look like one of the enqueue."""
    monkeypatch.setattr(sql, "WAKE_QUEUE", "SELECT 1/0 WHERE %(queue)s <> %(channel)s")

    job = Job.objects.enqueue("probe.ok", run_after=timedelta(seconds=1))

    assert Job.objects.filter(pk=job.pk).exists()
    assert "wake-up not sent queues=['default']" in caplog.text


def test_a_failing_wake_up_does_not_break_the_other_commit_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "WAKE_QUEUE", "SELECT 1/0 WHERE %(queue)s <> %(channel)s")
    ran: list[bool] = []

    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
        transaction.on_commit(lambda: ran.append(True))

    assert ran == [True]


def test_many_hooks_of_the_project_are_not_searched_through(idle: Any, heard: Heard) -> None:
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
        for _ in range(waking.HOOKS_SEARCHED):
            transaction.on_commit(lambda: None)
        Job.objects.enqueue("probe.ok")

    assert heard() == ["default", "default"], "the price of not searching further is one more hint"
