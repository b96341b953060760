"""The page of a job: its attempts with times and ends in words, jobs related to it, its log lines, what people did."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobqueue.admin.hints import hints
from jobqueue.admin.history import ATTEMPTS, BAR_WIDTH, Step, bars, ending, history
from jobqueue.admin.jobs import JobAdmin
from jobqueue.models import Attempt, Job
from jobqueue.ops.related import MOST, REACH, related
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, JobFactory, ago

from .conftest import page_of

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]


def html_of(client: Client, job: Job) -> str:
    return client.get(page_of(job)).content.decode()


def times(job: Job) -> list[tuple[int | None, int | None]]:
    """Return (wait, run) of each attempt in whole seconds, newest first."""
    steps, _more = history(Job.objects.get(pk=job.pk), using="default")
    return [
        tuple(None if value is None else round(value.total_seconds()) for value in (step.wait_time, step.run_time))  # type: ignore[misc]
        for step in steps
    ]


def test_an_attempt_waits_from_the_enqueue_and_then_from_the_end_before_it() -> None:
    job = JobFactory.create(
        status=Status.DONE, lease_epoch=3, created_at=ago(1000), claimed_at=ago(100), run_started_at=ago(90),
        finished_at=ago(50),
    )  # fmt: skip
    AttemptFactory.create(job=job, number=1, claimed_at=ago(990), started_at=ago(980), finished_at=ago(900))
    AttemptFactory.create(job=job, number=2, claimed_at=ago(600), started_at=None, finished_at=ago(500))

    assert times(job) == [(400, 40), (300, None), (10, 80)]


def test_of_the_oldest_attempt_that_is_read_the_wait_is_known_too() -> None:
    job = JobFactory.create(status=Status.DEAD, created_at=ago(10_000))
    for number in range(1, ATTEMPTS + 2):
        AttemptFactory.create(
            job=job, number=number, claimed_at=ago(9000 - 10 * number), finished_at=ago(8995 - 10 * number)
        )

    steps, more = history(job, using="default")

    assert (len(steps), more) == (ATTEMPTS, True)
    assert [round(step.wait_time.total_seconds()) for step in steps] == [5] * ATTEMPTS


def test_how_long_a_due_job_lay_is_told_of_the_attempt_under_way(operator: Client) -> None:
    job = JobFactory.create(
        status=Status.RUNNING, created_at=ago(500), run_after=ago(100), claimed_at=ago(93), run_started_at=ago(92)
    )

    assert re.search(r"6 min 47 s\s*<span[^>]*>due for 7 s</span>", html_of(operator, job))


def test_the_bars_have_one_scale_and_nothing_is_quite_invisible() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def step(wait: float, run: float) -> Step:
        claimed = start + timedelta(seconds=wait)
        return Step(
            run=1, number=1, outcome=2, worker_id="", ready_at=start, claimed_at=claimed, started_at=claimed,
            finished_at=claimed + timedelta(seconds=run),
        )  # fmt: skip

    wide, narrow = bars([step(300, 100), step(0.001, 0)])

    assert float(wide.wait) + float(wide.run) <= BAR_WIDTH
    assert float(wide.wait) == pytest.approx(3 * float(wide.run))
    assert wide.start == wide.wait
    assert (float(narrow.wait), float(narrow.run)) == (2.0, 0.0)
    assert bars([]) == []


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        (Outcome.FAILED, None, "Its handler raised an error."),
        (Outcome.CRASHED, -11, "crashed by SIGSEGV"),
        (Outcome.CRASHED, -9, "killed from outside (SIGKILL)"),
        (Outcome.CRASHED, -50, "signal 50"),
        (Outcome.CRASHED, 3, "exit code 3"),
        (Outcome.CRASHED, None, "died without a result"),
        (Outcome.MEMORY, -9, "more memory than its type may, and was stopped. Its process ended by SIGKILL."),
        (Outcome.LEASE_EXPIRED, None, "nobody renewed the lease"),
        (99, -9, ""),
    ],
)
def test_an_end_is_told_in_words(outcome: int, code: int | None, words: str) -> None:
    assert words in ending(outcome, code)
    assert bool(words) == bool(ending(outcome, code))


def test_a_process_that_a_person_had_killed_is_not_said_to_have_died_for_want_of_memory() -> None:
    assert ending(Outcome.CRASHED, -9, "jobqueue.exceptions.JobKilled") == "Somebody had its process killed."


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_words(outcome: Outcome) -> None:
    assert ending(outcome, None).endswith(".")


def test_the_page_tells_of_an_attempt(operator: Client) -> None:
    attempt = AttemptFactory.create(
        outcome=Outcome.CRASHED, exit_code=-11, cpu_seconds=12.5, peak_memory_bytes=3 * 1024**2, cost="0.25",
        worker_id="web-1:7:ab",
    )  # fmt: skip

    html = html_of(operator, attempt.job)

    for told in ("crashed by SIGSEGV", "12.5 s", "3.0 MiB", "0.25", "web-1:7:ab"):
        assert told in html
    assert reverse("admin:jobqueue_attempt_change", args=[attempt.pk]) in html


def test_related_are_those_with_the_key_and_those_alike_that_are_near(operator: Client) -> None:
    alike: dict[str, Any] = {"job_type": "probe.ok", "owner": "anna"}
    before = JobFactory.create_batch(MOST + 1, **alike)
    JobFactory.create(job_type="probe.ok", owner="bob")
    job = JobFactory.create(**alike, status=Status.DEAD, dedupe_key="k")
    after = JobFactory.create(**alike)
    holder = JobFactory.create(job_type="probe.fail", dedupe_key="k")
    dead = JobFactory.create(job_type="probe.fail", dedupe_key="k", status=Status.DEAD)
    JobFactory.create(job_type="probe.fail", dedupe_key="other")

    found = related(job, Job.objects.all())

    assert [one.job_id for one in found.near] == [*(one.pk for one in before[1:]), after.pk]
    assert {one.job_id for one in found.same_key} == {holder.pk, dead.pk}
    html = html_of(operator, job)
    assert page_of(holder) in html
    assert page_of(after) in html
    assert reverse("admin:jobqueue_deadletter_group") in html


def test_related_jobs_are_looked_for_within_reach_and_among_the_visible(operator: Client) -> None:
    job = JobFactory.create()
    hidden = JobFactory.create()
    far = JobFactory.create(id=job.pk + REACH + 1)

    found = related(job, Job.objects.exclude(pk=hidden.pk))

    assert found.near == []
    assert [one.job_id for one in related(far, Job.objects.all()).near] == [hidden.pk]


def test_its_log_lines_are_found_by_what_the_page_says() -> None:
    job = JobFactory.create(status=Status.DONE, first_started_at=ago(3600), finished_at=ago(3500))
    pattern = hints(job).lines[0].text.split("'")[1]

    for line in (f"settled job_id={job.pk} outcome=done", json.dumps({"job_id": job.pk}), f"x job_id={job.pk}"):
        assert re.search(pattern, line), line
    for line in (f"job_id={job.pk}7", f"job_id=7{job.pk}", json.dumps({"other_id": job.pk})):
        assert not re.search(pattern, line), line
    assert f'job_id="{job.pk}"' in hints(job).lines[2].text
    assert (job.first_started_at - timedelta(minutes=1)).astimezone(UTC).strftime("%H:%M:%S") in hints(job).lines[
        1
    ].text


def test_a_link_to_the_logs_is_filled_in_and_cannot_be_led_elsewhere(operator: Client, settings: Any) -> None:
    link = "https://logs.example.org/find?q={job_id}&type={job_type}&trace={trace_id}&from={since_ms}&raw={{x}}"
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LOG_LINK": link}
    trace = "0af7651916cd43dd8448eb211c80319c"
    job = JobFactory.create(job_type="a&b=//x", trace_context=f"00-{trace}-b7ad6b7169203331-01")

    found = hints(job)

    assert found.link.startswith(f"https://logs.example.org/find?q={job.pk}&type=a%26b%3D%2F%2Fx&trace={trace}&from=")
    assert found.link.endswith("&raw={x}")
    assert "Open them in your log search" in html_of(operator, job)


@pytest.mark.parametrize("trace", [None, "", "x", "00-zz-11-01", f"00-{'-' * 32}-b-01"])
def test_what_is_no_trace_is_left_out(trace: str | None) -> None:
    assert hints(JobFactory.create(trace_context=trace)).trace_id == ""


def test_who_may_see_the_audit_sees_addresses_and_refusals(client_of: ClientOf) -> None:
    job = JobFactory.create()
    ActionFactory.create(job_ids=[job.pk], actor="anna", action="cancel", reason="no use", address="192.0.2.7")
    ActionFactory.create(job_ids=[job.pk], actor="mallory", action="unmask", refused=True, address="192.0.2.66")

    reader = html_of(client_of("view_job"), job)
    auditor = html_of(client_of("view_job", "view_audit", username="auditor"), job)

    assert "no use" in reader
    assert not any(secret in reader for secret in ("192.0.2", "mallory"))
    assert all(told in auditor for told in ("no use", "192.0.2.7", "mallory", "192.0.2.66", "refused"))


def test_a_clone_and_its_model_lead_to_each_other(client_of: ClientOf) -> None:
    client = client_of("view_job", "retry_job")
    job = JobFactory.create()
    client.post(reverse("admin:jobqueue_job_clone", args=[job.pk]))
    clone = Job.objects.exclude(pk=job.pk).get()

    assert f'<a href="{page_of(clone)}">#{clone.pk}</a>' in html_of(client, job)
    assert f'<a href="{page_of(job)}">#{job.pk}</a>' in html_of(client, clone)


def test_what_the_database_does_not_tell_in_time_is_said(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    job = AttemptFactory.create().job
    monkeypatch.setattr("jobqueue.admin.job_page.EACH", timedelta(0))

    html = html_of(operator, job)

    assert html.count("did not tell of") == 3
    assert str(job) in html


def test_the_last_error_is_left_out_where_there_was_none(operator: Client) -> None:
    assert "Last error" not in html_of(operator, JobFactory.create())
    assert "Last error" in html_of(operator, JobFactory.create(status=Status.DEAD))


def test_the_page_of_an_attempt_tells_its_end_in_words(operator: Client) -> None:
    attempt: Attempt = AttemptFactory.create(outcome=Outcome.CRASHED, exit_code=-6)

    html = operator.get(reverse("admin:jobqueue_attempt_change", args=[attempt.pk])).content.decode()

    assert "SIGABRT" in html


def test_a_subclass_that_hides_a_job_hides_its_attempts(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, seen = AttemptFactory.create(), AttemptFactory.create()
    pages = {one: reverse("admin:jobqueue_attempt_change", args=[one.pk]) for one in (hidden, seen)}
    plain = JobAdmin.get_queryset
    monkeypatch.setattr(JobAdmin, "get_queryset", lambda self, request: plain(self, request).exclude(pk=hidden.job_id))

    listed = operator.get(reverse("admin:jobqueue_attempt_changelist")).content.decode()

    assert pages[seen] in listed
    assert pages[hidden] not in listed
    assert operator.get(pages[seen]).status_code == 200
    assert operator.get(pages[hidden]).status_code == 302  # to the index, as the admin does with what is not there


def test_a_subclass_that_refuses_a_job_refuses_its_attempts_and_actions(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, allowed = AttemptFactory.create(), AttemptFactory.create()
    plain = JobAdmin.has_view_permission

    def has_view_permission(self: JobAdmin, request: Any, obj: Any = None) -> bool:
        return plain(self, request) and (obj is None or obj.pk != refused.job_id)

    monkeypatch.setattr(JobAdmin, "has_view_permission", has_view_permission)
    monkeypatch.setattr(
        JobAdmin, "has_retry_permission", lambda _self, _request, obj=None: obj is None or obj.pk != allowed.job_id
    )

    def status(attempt: Attempt, address: str) -> int:
        return operator.get(address).status_code if "change" in address else operator.post(address).status_code

    for attempt, expected in ((refused, 403), (allowed, 200)):
        assert status(attempt, reverse("admin:jobqueue_attempt_change", args=[attempt.pk])) == expected
        assert status(attempt, page_of(attempt.job)) == expected
        assert status(attempt, reverse("admin:jobqueue_job_act", args=[attempt.job_id, "retry"])) == 403
    html = html_of(operator, allowed.job)
    assert "Retry now" not in html
    assert "Discard" in html
    assert Job.objects.filter(status=Status.DEAD).count() == 2
