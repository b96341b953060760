"""The overview: each part for whoever may see it, read by few statements, escaped, and narrowed as the list is."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobqueue import operations
from jobqueue.admin import live, overview
from jobqueue.admin.jobs import JobAdmin
from jobqueue.models import Budget, Incident, Release, Tick
from jobqueue.ops import overview as figures
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory, StatFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
OVERVIEW = reverse("admin:app_list", args=["jobqueue"])
NEEDED = {
    "status": "view_job",
    "alerts": "view_incident",
    "trend": "view_job",
    "queues": "view_job",
    "groups": "view_job",
    "workers": "view_worker",
    "costs": "view_cost",
}
ALL = ("view_job", "view_incident", "view_worker", "view_cost")
BUDGET = {"amount": "4", "unit": "USD", "per": "day", "at_limit": "alert"}


@pytest.fixture
def anna(client_of: ClientOf) -> Client:
    return client_of(*ALL, username="anna")


def part_url(name: str) -> str:
    return reverse("admin:jobqueue_overview", args=[name])


def shown(client: Client) -> list[str]:
    html = client.get(OVERVIEW).content.decode()
    return [name for name in overview.PARTS if f'id="jobqueue-live-{name}"' in html]


def test_every_part_has_its_permission() -> None:
    assert list(NEEDED) == list(overview.PARTS)


@pytest.mark.parametrize("codename", ALL)
def test_a_part_is_for_whoever_may_see_its_page(client_of: ClientOf, codename: str) -> None:
    client = client_of(codename)
    allowed = [name for name, needed in NEEDED.items() if needed == codename]

    assert shown(client) == allowed
    for name in NEEDED:
        answer = client.get(part_url(name))
        assert answer.status_code == (200 if name in allowed else 403), name
        assert (live.HEADER in answer) == (name in allowed)


def test_every_part_is_read_anew_from_its_own_address(anna: Client) -> None:
    html = anna.get(OVERVIEW).content.decode()

    assert re.findall('data-hx-get="([^"]+)"', html) == [part_url(name) for name in NEEDED]


def test_whoever_may_see_other_pages_only_gets_the_list_of_them(client_of: ClientOf) -> None:
    client = client_of("view_audit")

    html = client.get(OVERVIEW).content.decode()

    assert "data-jobqueue-live" not in html
    assert reverse("admin:jobqueue_action_changelist") in html


def test_a_part_that_does_not_exist_is_not_found(anna: Client) -> None:
    assert anna.get(part_url("nothing")).status_code == 404
    assert anna.post(part_url("status")).status_code == 405


def test_a_part_is_never_kept(anna: Client) -> None:
    assert "no-store" in anna.get(part_url("status"))["Cache-Control"]


def story() -> None:
    JobFactory.create_batch(3, queue="mail", run_after=ago(65))
    JobFactory.create(status=Status.RUNNING, lease_until=ago(1))
    JobFactory.create(status=Status.DEAD, error_class="builtins.ValueError", last_error="boom", fingerprint="f")
    StatFactory.create(jobs=30, at=ago(900), wait_buckets=[14] * 30)
    StatFactory.create(jobs=10, outcome=Outcome.FAILED, dead=2, at=ago(900), wait_buckets=[14] * 10)
    Release.objects.create(version="2026.11", first_seen_at=ago(1200))
    Incident.objects.create(rule="dead_1h", state=Incident.State.FIRING, text="3 jobs died", fired_at=ago(90))
    WorkerFactory.create(name="quiet", heartbeat_at=ago(500))
    WorkerFactory.create(name="busy", busy=1, queues=["mail"], release="2026.11")
    CostFactory.create(amount="1.25")
    now = timezone.now()
    spent = {"window_start": now - timedelta(hours=1), "window_end": now + timedelta(hours=1), "spent": "1.5"}
    Budget.objects.create(name="all", unit="USD", amount=4, **spent)


def test_it_tells_what_there_is(anna: Client, settings: Any) -> None:
    settings.JOBQUEUE = {"BUDGETS": {"all": BUDGET}}
    story()

    html = anna.get(OVERVIEW).content.decode()

    for text in (
        *("1 min 5 s", "2026.11, first seen", "10 (25.0%)", "3 jobs died", "for 1 min 30 s", "builtins.ValueError"),
        *("1.25", "1.50 of 4.00 USD today", "1 / 2", "busy", "quiet", "silent"),
    ):
        assert text in html, text
    assert html.index("quiet") < html.index("busy</"), "the silent one comes first"


def test_every_link_of_the_parts_leads_to_a_page(anna: Client) -> None:
    story()
    html = anna.get(OVERVIEW).content.decode()
    parts = html[html.index('class="jobqueue-overview"') : html.index("jobqueue-pages")]

    links = {unescape(link) for link in re.findall('href="([^"]+)"', parts)}

    assert len(links) > 10
    assert {link: anna.get(link).status_code for link in links} == dict.fromkeys(links, 200)


def test_it_takes_no_more_than_fifteen_statements(anna: Client, settings: Any) -> None:
    settings.JOBQUEUE = {"BUDGETS": {"all": BUDGET}}
    story()
    Tick.objects.create(name="alerts", at=ago(1))

    def reads() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert anna.get(OVERVIEW).status_code == 200
        passing = ("SAVEPOINT", "RELEASE", "ROLLBACK")
        return [
            query["sql"]
            for query in captured.captured_queries
            if not query["sql"].startswith(passing) and "set_config(" not in query["sql"]
        ]

    few = reads()
    for number in range(30):
        JobFactory.create(queue=f"queue-{number}", status=Status.DEAD, fingerprint=f"f{number}", last_error="boom")
        Release.objects.create(version=f"2027.{number}")
        WorkerFactory.create(name=f"worker-{number}")
        Incident.objects.create(rule=f"rule-{number}", state=Incident.State.FIRING, fired_at=ago(90))

    assert len(reads()) == len(few) <= 15, few


def test_rules_that_nobody_looks_at_are_not_taken_for_calm(anna: Client) -> None:
    never = anna.get(part_url("alerts")).content.decode()
    Tick.objects.create(name="alerts", at=ago(3600))
    late = anna.get(part_url("alerts")).content.decode()
    Tick.objects.update(at=ago(1))
    calm = anna.get(part_url("alerts")).content.decode()

    assert "Nobody has looked at these rules yet." in never
    assert "Nobody has looked at these rules for 1 h 0 min." in late
    assert "No alert fires." not in never + late
    assert "No alert fires." in calm
    assert "Nobody has looked" not in calm
    assert "so nobody looks at the rules" in anna.get(OVERVIEW).content.decode()
    WorkerFactory.create()
    assert "so nobody looks at the rules" not in anna.get(OVERVIEW).content.decode()


def test_a_living_worker_is_no_sign_that_somebody_looks_at_the_rules(anna: Client) -> None:
    """It may leave maintenance to others, or each of its evaluations fails."""
    WorkerFactory.create()
    Tick.objects.create(name="alerts", at=ago(3600))

    late = anna.get(OVERVIEW).content.decode()
    Tick.objects.update(at=ago(1))
    calm = anna.get(OVERVIEW).content.decode()

    assert "Nobody has looked at these rules for 1 h 0 min." in late
    assert "No alert fires." not in late
    assert "No alert fires." in calm


def test_muted_groups_are_not_taken_for_none(anna: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)
    until = timezone.now() + timedelta(hours=1)
    operations.mute_groups([operations.Group(job.fingerprint or "", job.job_type)], until, actor="demo")

    html = anna.get(part_url("groups")).content.decode()

    assert "1 group is muted." in html
    assert "No dead letters" not in html


def test_names_from_outside_are_escaped(anna: Client) -> None:
    evil = "<svg onload=alert(1)>"
    JobFactory.create(queue=evil)
    JobFactory.create(status=Status.DEAD, error_class=evil, last_error=evil, fingerprint=evil, job_type=evil)
    StatFactory.create(queue=evil, job_type=evil)
    Release.objects.create(version=evil)
    Incident.objects.create(rule=evil, subject=evil, state=Incident.State.FIRING, text=evil, fired_at=ago(1))
    WorkerFactory.create(name=evil, hostname=evil + "2", version=evil, release=evil)

    pages = [anna.get(OVERVIEW), *(anna.get(part_url(name)) for name in NEEDED)]

    assert "<svg onload" not in "".join(page.content.decode() for page in pages)
    assert pages[0].content.decode().count("&lt;svg onload") >= 8


def test_times_to_choose_from_are_kept_by_the_parts(anna: Client) -> None:
    html = anna.get(OVERVIEW, {"window": "7d"}).content.decode()

    assert f'data-hx-get="{part_url("trend")}?window=7d"' in html
    assert "by 4 hours, the last 7 days" in anna.get(part_url("trend"), {"window": "7d"}).content.decode()
    assert "by 2 minutes, the last hour" in anna.get(part_url("trend"), {"window": "<x>"}).content.decode()


def test_a_subclass_that_narrows_the_jobs_narrows_the_overview(anna: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class OwnJobAdmin(JobAdmin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(owner="anna")

    monkeypatch.setitem(admin.site._registry, JobFactory._meta.model, OwnJobAdmin(JobFactory._meta.model, admin.site))
    JobFactory.create_batch(2, owner="anna")
    JobFactory.create_batch(5, owner="bob")
    StatFactory.create(jobs=7)

    html = anna.get(part_url("status")).content.decode()

    assert "</span>2</span>" in html.replace("○", "") or ">2</span>" in html
    assert ">7</span>" not in html
    assert "trend" not in shown(anna)
    assert anna.get(part_url("trend")).status_code == 403


def test_what_takes_too_long_is_unknown_and_the_page_stands(anna: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "TOTAL", timedelta(0))

    html = anna.get(OVERVIEW).content.decode()

    assert html.lower().count("unknown") >= 7


@pytest.mark.parametrize("installed", [True, False])
def test_without_htmx_there_is_a_link_to_load_the_page_again(anna: Client, settings: Any, installed: bool) -> None:
    if not installed:
        settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_htmx"]

    html = anna.get(OVERVIEW, {"window": "24h"}).content.decode()

    assert f'href="{OVERVIEW}?window=24h"' in html
    assert ("jobqueue/live.js" in html) == installed
