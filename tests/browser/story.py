"""One evening of a site, in rows: something of everything that the console can show, for the walk over its pages."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from jobqueue import operations
from jobqueue.alerting import BUILT_IN
from jobqueue.models import Budget, GroupNote, Incident, Job, Order, Release, Tick
from jobqueue.models.action import Action
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import (
    ActionFactory,
    AttemptFactory,
    CostFactory,
    JobFactory,
    StatFactory,
    WorkerFactory,
    ago,
    ahead,
)

BUDGETS = {
    "documents": {"amount": "40", "unit": "USD", "per": "day", "queue": "documents", "at_limit": "alert"},
    "everything": {"amount": "150", "unit": "USD", "per": "month", "at_limit": "refuse"},
    "partner": {"amount": "10", "unit": "USD", "per": "month", "job_type": "partner.notify", "at_limit": "pause"},
}
HOUR, DAY = 3_600, 86_400
LONG = "HTTPSConnectionPool(host='partner.example.org', port=443): Max retries exceeded with url: /v1/notes?id=18"
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/shop/partner/jobs.py", line 41, in notify\n'
    "    answer = client.post(url, json=note, timeout=5)\n"
    '  File "/usr/lib/python3.12/site-packages/requests/sessions.py", line 637, in post\n'
    "    return self.request('POST', url, data=data, json=json, **kwargs)\n"
    f"requests.exceptions.ConnectionError: {LONG}"
)
STACK = (
    "Current thread 0x00007f4b2c7fe740 (most recent call first):\n"
    '  File "/srv/shop/documents/pages.py", line 88 in words_of\n'
    '  File "/srv/shop/documents/jobs.py", line 27 in index\n'
    '  File "/usr/lib/python3.12/site-packages/jobqueue/children/running.py", line 60 in run'
)


# A walk takes longer than a lease; while it lasts those who live stay alive.
FRESH = (
    "UPDATE jobqueue_worker SET heartbeat_at = now() WHERE name LIKE 'web-%'",
    "UPDATE jobqueue_job SET lease_until = now() + interval '90 s' WHERE status = 2 AND worker_id LIKE 'web-%'",
    "UPDATE jobqueue_tick SET at = now() - interval '4 s'",
)


@dataclass(frozen=True, slots=True)
class Story:
    """The rows that pages of their own are opened for."""

    waiting: Job
    running: Job
    stuck: Job
    dead: Job
    done: Job
    attempt: int
    worker_id: str
    incident: int
    action: int


def tell() -> Story:
    """Make the rows."""
    _money()
    _traffic()
    _causes()
    worker_id = _workers()
    running, stuck = _at_work()
    dead, attempt = _dead_letter()
    _people(dead)
    return Story(
        waiting=_waiting(),
        running=running,
        stuck=stuck,
        dead=dead,
        done=_done(),
        attempt=attempt,
        worker_id=worker_id,
        incident=_alerts(),
        action=Action.objects.filter(action="retry").earliest("pk").pk,
    )


def _waiting() -> Job:
    JobFactory.create_batch(30, job_type="documents.index", queue="documents", run_after=ago(95))
    JobFactory.create_batch(2, job_type="documents.search", queue="search", status=Status.SCHEDULED)
    JobFactory.create_batch(4, job_type="partner.notify", queue="partner", run_after=ago(2 * HOUR))
    JobFactory.create(queue="lost.and-found", job_type="old.task", run_after=ago(50))
    waiting: Job = JobFactory.create(
        job_type="partner.notify", queue="partner", run_after=ago(300), owner="anna@example.org", dedupe_key="note-77",
        payload={"url": "https://partner.example.org/v1/notes", "note": {"id": 77, "lines": ["Größe <b>", "Übung"]}},
    )  # fmt: skip
    return waiting


def _at_work() -> tuple[Job, Job]:
    JobFactory.create_batch(
        2, status=Status.RUNNING, job_type="documents.index", queue="documents", worker_id="web-1:a7",
        claimed_at=ago(9), run_started_at=ago(8),
    )  # fmt: skip
    running: Job = JobFactory.create(
        status=Status.RUNNING, job_type="documents.index", queue="documents", worker_id="web-1:a7", claimed_at=ago(71),
        run_started_at=ago(70), progress={"percent": 40, "message": "page 5 of 12"}, payload={"path": "docs/states.md"},
    )  # fmt: skip
    Order.objects.create(
        worker_id="web-1:a7", kind=Order.Kind.STACK, job_id=running.pk, lease_epoch=running.lease_epoch,
        asked_by="anna", answered_at=timezone.now(), answer=STACK, obeyed=True,
    )  # fmt: skip
    stuck: Job = JobFactory.create(
        expired=True, job_type="documents.search", queue="search", worker_id="night-2:c1", claimed_at=ago(2 * HOUR),
        run_started_at=ago(2 * HOUR), lease_until=ago(700),
    )  # fmt: skip
    return running, stuck


def _done() -> Job:
    done: Job = JobFactory.create(
        status=Status.DONE, job_type="documents.index", queue="documents", payload={"path": "docs/admin.md"},
        result={"pages": 12, "words": 4_711, "languages": ["en", "de"], "warnings": []}, cost_total="0.042",
    )  # fmt: skip
    AttemptFactory.create(
        job=done, outcome=Outcome.DONE, error_class="", error_text="", traceback="", fingerprint="",
        cost="0.042", peak_memory_bytes=61_000_000, cpu_seconds=0.8, finished_at=ago(0),
    )  # fmt: skip
    JobFactory.create_batch(8, status=Status.DONE, job_type="documents.index", queue="documents")
    JobFactory.create(status=Status.CANCELLED, job_type="documents.search", queue="search")
    return done


def _causes() -> None:
    """Make dead letters of several causes."""
    for number in range(12):
        JobFactory.create(
            status=Status.DEAD, fingerprint="a1", error_class="pypdf.errors.PdfReadError", job_type="documents.index",
            queue="documents", last_error=f"EOF marker not found in /srv/scans/{number}.pdf", payload={"path": "a.pdf"},
            finished_at=ago(400 * number),
        )  # fmt: skip
    for hours in (0.1, 0.2, 0.3, 20, 22, 30, 160):
        JobFactory.create(
            status=Status.DEAD, fingerprint="b2", error_class="requests.exceptions.ConnectionError", last_error=LONG,
            finished_at=ago(hours * HOUR), job_type="partner.notify", queue="partner", cost_total="0.35",
            payload={"url": "http://partner.exmaple.org/v1/notes", "note": {"id": 18}},
        )  # fmt: skip
    for _ in range(5):
        JobFactory.create(
            status=Status.DEAD, fingerprint="c3", error_class="shop.errors.TooLarge", job_type="documents.thumbnail",
            queue="documents", last_error="13000 by 13000 pixels are too many", finished_at=ago(3 * DAY),
        )  # fmt: skip
    JobFactory.create(
        status=Status.DEAD, fingerprint=None, error_class=None, last_error=None, job_type="mail.send", queue="mail",
        finished_at=ago(5 * DAY),
    )  # fmt: skip


def _dead_letter() -> tuple[Job, int]:
    dead: Job = JobFactory.create(
        status=Status.DEAD, job_type="partner.notify", queue="partner", fingerprint="b2", owner="anna@example.org",
        error_class="requests.exceptions.ConnectionError", last_error=LONG, cost_total="0.35", dedupe_key="note-18",
        payload={
            "url": "http://partner.exmaple.org/v1/notes", "password": "hunter2", "to": ["anna@example.org"],
            "note": {"id": 2**60, "title": "Größe <b>", "lines": [{"text": "one", "amount": 1.5}, {"text": "two"}]},
        },
    )  # fmt: skip
    for number, outcome in ((1, Outcome.FAILED), (2, Outcome.CRASHED), (3, Outcome.FAILED)):
        begun = (4 - number) * 600
        last = AttemptFactory.create(
            job=dead, number=number, outcome=outcome, error_class="requests.exceptions.ConnectionError",
            error_text=LONG, traceback=TRACE, cost="0.1", peak_memory_bytes=52_000_000,
            exit_code=-9 if number == 2 else None, worker_id="web-1:a7",
            claimed_at=ago(begun + 2), started_at=ago(begun + 1), finished_at=ago(begun - 5),
        )  # fmt: skip
    JobFactory.create(status=Status.DONE, job_type="partner.notify", queue="partner", owner="anna@example.org")
    return dead, last.pk


def _workers() -> str:
    web = WorkerFactory.create(
        worker_id="web-1:a7", name="web-1", hostname="web-1.example.org", pid=4711, version="0.5", release="2026.11.4",
        queues=["documents", "search", "mail", "partner"], slots=4, busy=3, started_at=ago(3 * DAY), jobs_ended=120_412,
        jobs_per_second=2.4, memory_bytes=310_000_000, clock_skew_seconds=0.004, listening=True, claimed_at=ago(2),
        gauges=[{"name": "ports_pct", "labels": {"host": "web-1"}, "value": 27.0, "at_seconds_ago": 1.5}],
    )  # fmt: skip
    WorkerFactory.create(
        worker_id="web-2:b3", name="web-2", hostname="web-2.example.org", pid=4712, version="0.5", release="2026.11.3",
        queues=["documents"], slots=2, busy=0, stopping=True, started_at=ago(3 * DAY), listening=True,
    )  # fmt: skip
    WorkerFactory.create(
        worker_id="night-2:c1", name="night-2", hostname="night-2.example.org", pid=99, queues=["*"], slots=2, busy=1,
        started_at=ago(2 * DAY), heartbeat_at=ago(800), clock_skew_seconds=3.2, listening=False,
    )  # fmt: skip
    for version, seconds in (("2026.11.2", 5 * DAY), ("2026.11.3", 20 * HOUR), ("2026.11.4", 1_500)):
        Release.objects.create(version=version, first_seen_at=timezone.now() - timedelta(seconds=seconds))
    return str(web.worker_id)


def _traffic() -> None:
    """Make a week of statistics: busy by day, a burst of failures an hour ago."""
    for hour in range(1, 7 * 24):
        busy = 120 + 90 * (hour % 24 < 10)
        StatFactory.create(
            at=ago(hour * HOUR), queue="documents", jobs=busy, span_seconds=900, wait_seconds=busy * 0.4,
            run_seconds=busy * 0.9, job_type="documents.index", wait_counts=[0] * 18 + [busy],
            run_counts=[0] * 14 + [busy],
        )  # fmt: skip
        StatFactory.create(
            at=ago(hour * HOUR), queue="partner", jobs=3 + 20 * (hour < 2), dead=1, span_seconds=900,
            outcome=Outcome.FAILED, job_type="partner.notify", wait_counts=[0] * 18 + [3], run_counts=[0] * 14 + [3],
        )  # fmt: skip
    for minute in range(0, 60, 4):
        jobs = 20 + minute % 7 * 4
        StatFactory.create(
            at=ago(minute * 60 + 5), queue="documents", job_type="documents.index", jobs=jobs,
            wait_buckets=[18] * jobs, run_buckets=[14] * jobs,
        )  # fmt: skip
    StatFactory.create(queue="documents", jobs=12, outcome=Outcome.FAILED, wait_buckets=[30] * 12, at=ago(240))


def _money() -> None:
    for day in range(30):
        for job_type, queue, amount in (("documents.index", "documents", 3), ("partner.notify", "partner", 1)):
            for component, part in (("model", 2), ("cpu", 1)):
                CostFactory.create(
                    job_type=job_type, queue=queue, owner=f"owner-{day % 3}", component=component,
                    amount=f"{(amount + day % 7) * part / 4:.2f}", at=ago(day * DAY + 60),
                )  # fmt: skip
    CostFactory.create(job_type="mail.send", queue="mail", unit="EUR", amount="0.00000012")
    CostFactory.create(job_type="documents.index", queue="documents", amount="30")
    for cost in ("9.25", "3", "0.125"):
        job = JobFactory.create(
            status=Status.DEAD, job_type="documents.index", queue="documents", cost_total=cost, fingerprint="a1",
            error_class="pypdf.errors.PdfReadError", last_error="EOF marker not found in /srv/scans/99.pdf",
            finished_at=ago(60),
        )  # fmt: skip
        AttemptFactory.create(job=job, cost=cost, finished_at=ago(60))
    now = timezone.now()
    Budget.objects.create(
        name="documents", window_start=now.replace(hour=0, minute=0, second=0, microsecond=0),
        window_end=now + timedelta(hours=7), unit="USD", amount=40, spent="33.25", level=80,
    )  # fmt: skip


def _alerts() -> int:
    Incident.objects.create(
        rule="failure_rate", subject="partner", state=Incident.State.RESOLVED, value=0.01, worst=0.4, threshold=0.1,
        text="40 % of the attempts in queue partner failed", broken_since=ago(9 * HOUR), fired_at=ago(9 * HOUR - 120),
        resolved_at=ago(8 * HOUR),
    )  # fmt: skip
    Incident.objects.create(
        rule="oldest_pending_sec", subject="partner", state=Incident.State.PENDING, value=7_200, worst=7_200,
        threshold=600, text="the oldest job of queue partner has been due for 2 h", broken_since=ago(40),
    )  # fmt: skip
    firing = Incident.objects.create(
        rule="worker_silent", subject="night-2", state=Incident.State.FIRING, value=800, worst=800, threshold=60,
        text="worker night-2 has not been heard of for 13 min", broken_since=ago(740), fired_at=ago(680),
        fired_told_at=ago(670),
    )  # fmt: skip
    calm = {name: {"value": 0, "subject": ""} for name in BUILT_IN} | {"figures_unknown": None}
    worst = {
        "worker_silent": {"value": 800, "subject": "night-2"},
        "oldest_pending_sec": {"value": 7_200, "subject": "partner"},
        "cost_1h_usd": {"value": 0.31, "subject": ""},
    }
    Tick.objects.create(name="alerts", seen=calm | worst)
    until = timezone.now() + timedelta(days=1)
    operations.mute_alert("failure_rate", until=until, actor="anna", reason="a new partner is tried out")
    return int(firing.pk)


def _people(dead: Job) -> None:
    until = timezone.now() + timedelta(hours=3)
    operations.pause_queue("partner", actor="anna", reason="the partner is down until noon, ticket 4711", until=until)
    operations.pause_queue("mail", actor="budget:partner", reason="budget partner is spent")
    ActionFactory.create(
        job_ids=[dead.pk], actor="anna", reason="the partner is back", address="192.0.2.17", at=ago(1_300)
    )
    ActionFactory.create(
        job_ids=[dead.pk], actor="bert", action="edit_payload", reason="wrong host", address="192.0.2.23", at=ago(900),
        detail={"payload": {"from": {"url": "http://partner"}, "to": {"url": "http://partner.exmaple.org/v1/notes"}}},
    )  # fmt: skip
    ActionFactory.create(
        actor="viewer", action="discard", refused=True, job_ids=[dead.pk], address="192.0.2.99", at=ago(300)
    )
    tomorrow = timezone.now() + timedelta(hours=20)
    GroupNote.objects.create(
        fingerprint="b2", job_type="partner.notify", assignee="anna", updated_by="bert",
        note="The host is misspelt in the payloads of Friday's import. Edit the field url, then retry slowly.",
    )  # fmt: skip
    GroupNote.objects.create(
        fingerprint="c3", job_type="documents.thumbnail", muted_until=tomorrow, updated_by="anna",
        note="Maps of the land office: we wait for the new limit.",
    )  # fmt: skip
    JobFactory.create(status=Status.SCHEDULED, queue="mail", job_type="mail.send", run_after=ahead(HOUR))
