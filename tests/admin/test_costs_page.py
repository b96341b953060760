"""The page of costs: sums and charts by part and period, budgets, what was dear and what was wasted, and its files."""

import csv
import io
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobqueue.admin import downloads
from jobqueue.ops import cost_page
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import AttemptFactory, CostFactory, JobFactory, ago

from .conftest import COSTS

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
URL = reverse(COSTS)
CSV = reverse("admin:jobqueue_cost_csv")
BUDGET = {"amount": "10", "unit": "USD", "per": "day"}


@pytest.fixture
def accountant(client_of: ClientOf) -> Client:
    return client_of("view_cost", username="anna")


def page(client: Client, **query: str) -> Any:
    answer = client.get(URL, query)
    assert answer.status_code == 200
    return answer


def file_of(client: Client, **query: str) -> list[list[str]]:
    answer = client.get(CSV, query)
    assert answer.status_code == 200
    return list(csv.reader(io.StringIO(answer.content.decode())))


@pytest.mark.parametrize("part", ["job_type", "queue", "component", "owner"])
def test_costs_are_summed_by_each_part(accountant: Client, part: str) -> None:
    for name, amount in (("dear", "2"), ("cheap", "0.00000012"), ("dear", "1.5")):
        CostFactory.create(**{part: name}, amount=amount)

    answer = page(accountant, by=part)

    assert [(key, amounts[0]) for key, _unit, amounts in answer.context["rows"]] == [
        ("dear", "3.50"),
        ("cheap", "0.00000012"),
    ]
    assert answer.context["behind"]["heads"] == ["dear", "cheap"]
    assert answer.context["behind"]["rows"][0][1] == ["3.50", "0.00000012", "3.50000012"]


def test_what_the_address_does_not_offer_is_the_default(accountant: Client) -> None:
    CostFactory.create()

    answer = page(accountant, by="payload", per="century", unit="GOLD")

    assert [link["label"] for link in answer.context["by_links"] if link["chosen"]] == ["Type"]
    assert (str(answer.context["period"]), answer.context["unit"]) == ("Day", "USD")


def test_units_have_a_chart_each(accountant: Client) -> None:
    CostFactory.create(amount="3")
    CostFactory.create(amount="200", unit="EUR")

    euros = page(accountant, unit="EUR")

    assert [link["label"] for link in euros.context["unit_links"]] == ["EUR", "USD"]
    assert euros.context["behind"]["rows"][0][1][-1] == "200.00"
    assert page(accountant).context["unit"] == "USD"
    assert page(accountant).context["behind"]["rows"][0][1][-1] == "3.00"


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns", "UTC"])
def test_days_are_those_of_the_configured_zone(accountant: Client, settings: Any, zone: str) -> None:
    """Case C166."""
    settings.TIME_ZONE = zone
    today = timezone.now().astimezone(ZoneInfo(zone)).date()
    midnight = datetime.combine(today - timedelta(days=2), datetime.min.time(), ZoneInfo(zone))
    CostFactory.create(amount="1", at=midnight)
    CostFactory.create(amount="2", at=midnight - timedelta(seconds=1))
    CostFactory.create(amount="4", at=midnight + timedelta(days=1) - timedelta(seconds=1))

    rows = dict(page(accountant, per="day").context["behind"]["rows"])

    assert rows[f"{midnight:%Y-%m-%d}"][-1] == "5.00"
    assert rows[f"{midnight - timedelta(days=1):%Y-%m-%d}"][-1] == "2.00"


@pytest.mark.parametrize(("per", "periods"), [("hour", 24), ("day", 30), ("month", 12)])
def test_periods_without_costs_have_a_place_too(accountant: Client, per: str, periods: int) -> None:
    CostFactory.create(amount="7")

    answer = page(accountant, per=per)

    totals = [amounts[-1] for _begins, amounts in answer.context["behind"]["rows"]]
    assert totals == ["7.00", *["0.00"] * (periods - 1)]
    assert len(answer.context["chart"].bars) == periods


def test_the_twelve_months_end_with_this_one_and_begin_at_local_midnight(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"

    starts = cost_page.starts_of("month", datetime(2026, 1, 31, 19, 0, tzinfo=UTC))  # the first of February there

    assert starts[-1].astimezone(UTC) == datetime(2026, 1, 31, 18, 30, tzinfo=UTC)
    assert f"{starts[0]:%Y-%m-%d %H:%M}" == "2025-03-01 00:00"
    assert len(starts) == 12


def test_the_hour_that_comes_twice_is_two_periods(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"

    starts = cost_page.starts_of("hour", datetime(2026, 10, 25, 12, 0, 1, tzinfo=UTC))

    instants = [start.astimezone(UTC) for start in starts]
    assert [b - a for a, b in pairwise(instants)] == [timedelta(hours=1)] * 23
    assert [f"{start:%H}" for start in starts].count("02") == 2


def test_only_the_dearest_parts_have_a_column_and_the_rest_is_together(accountant: Client) -> None:
    for number in range(8):
        CostFactory.create(owner=f"owner-{number}", amount=str(10 - number))

    behind = page(accountant, by="owner").context["behind"]

    assert behind["heads"] == [*(f"owner-{number}" for number in range(5)), "others"]
    assert behind["rows"][0][1] == ["10.00", "9.00", "8.00", "7.00", "6.00", "12.00", "52.00"]


def test_the_chart_is_an_image_with_a_name_and_without_script_or_style(accountant: Client) -> None:
    CostFactory.create(amount="12.5", job_type="<b>")

    html = page(accountant).content.decode()

    (svg,) = re.findall(r'<svg class="jobqueue-chart".*?</svg>', html, re.DOTALL)
    image = ET.fromstring(svg)
    title, description = image[0], image[1]
    assert image.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == "USD by day, the last 30 days"
    assert "12.50 USD in all" in (description.text or "")
    assert not {"style", "script"} & {node.tag for node in image.iter()}
    assert not any(name == "style" or name.startswith("on") for node in image.iter() for name in node.attrib)
    assert "<b>" not in html


def test_a_chart_is_drawn_the_same_in_every_language(accountant: Client, settings: Any) -> None:
    CostFactory.create(amount="12.5")
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True

    html = page(accountant).content.decode()

    numbers = re.findall(r' (?:x|y|x1|x2|y1|y2|width|height|viewBox)="([^"]*)"', html)
    assert numbers
    assert not [number for number in numbers if "," in number]


@pytest.mark.parametrize(
    ("spent", "width", "state"),
    [
        ("2.5", "60.0", "within the budget"),
        ("8", "192.0", "more than 80 % is spent"),
        ("30", "240.0", "spent: enqueues are refused"),
    ],
)
def test_budgets_are_bars_with_words(accountant: Client, settings: Any, spent: str, width: str, state: str) -> None:
    settings.JOBQUEUE = {"BUDGETS": {"index": {**BUDGET, "job_type": "documents.index", "at_limit": "refuse"}}}
    CostFactory.create(job_type="documents.index", amount=spent)

    answer = page(accountant)

    (budget,) = answer.context["budgets"]
    assert (budget["bar"], budget["state"], budget["of"]) == (width, state, "type documents.index")
    html = re.sub(r"\s+", " ", answer.content.decode())
    assert f"{Decimal(spent):.2f} of 10.00 USD today ({Decimal(spent) * 10:.0f}%)" in html


def test_the_costliest_jobs_lead_to_their_pages_for_those_who_may_see_jobs(client_of: ClientOf) -> None:
    JobFactory.create(status=Status.DONE, cost_total="1")
    dear = JobFactory.create(status=Status.DONE, cost_total="9.25", job_type="dear", owner="<anna>")
    link = reverse("admin:jobqueue_job_change", args=[dear.pk])

    seen = page(client_of("view_cost", "view_job", username="both"))
    unseen = page(client_of("view_cost", username="costs"))

    assert seen.context["costliest"][0]["id"] == str(dear.pk)
    assert link in seen.content.decode()
    assert link not in unseen.content.decode()
    assert "9.25" in unseen.content.decode()
    assert "<anna>" not in unseen.content.decode()


def test_what_failed_attempts_cost_is_told_by_type(accountant: Client) -> None:
    job = JobFactory.create(status=Status.DEAD, job_type="mail.send")
    AttemptFactory.create(job=job, cost="1.5", finished_at=ago(60))
    CostFactory.create(job_type="mail.send", amount="6")

    CostFactory.create(job_type="other", amount="24")

    answer = page(accountant)

    (row,) = answer.context["retries"]
    assert answer.context["wasted"] == "1.50 of 30.00 USD: 5.0%"
    assert (row["job_type"], row["spent"], row["failed"], row["share"]) == ("mail.send", "6.00", "1.50", "25.0%")


def test_failed_attempts_are_told_of_no_longer_than_jobs_are_kept(accountant: Client, settings: Any) -> None:
    settings.JOBQUEUE = {"RETENTION_DONE_SECONDS": 86_400}

    since = datetime.strptime(page(accountant, per="month").context["retries_since"], "%Y-%m-%d %H:%M:%S")

    ago = timezone.now() - since.replace(tzinfo=timezone.get_default_timezone())
    assert timedelta(days=1) <= ago < timedelta(days=1, minutes=5)


def test_the_page_and_its_files_need_the_permission(
    client: Client, client_of: ClientOf, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = client_of("view_job", username="stranger")
    for url in (URL, CSV):
        assert client.get(url).status_code == 302
        assert client_of("view_cost", username=url).get(url).status_code == 200
        with caplog.at_level(logging.WARNING):
            assert stranger.get(url).status_code == 403
        assert url in caplog.text


def test_nothing_answers_to_post(accountant: Client) -> None:
    assert accountant.post(URL).status_code == 405
    assert accountant.post(CSV).status_code == 405


def test_the_files_hold_what_is_shown(accountant: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    CostFactory.create(owner="anna", amount="0.00000012")
    CostFactory.create(owner="anna", amount="3", unit="EUR", at=ago(3 * 86_400))
    answer = page(accountant, by="owner", per="day")
    links = [parse_qs(urlsplit(answer.context[name]).query) for name in ("csv_sums", "csv_series")]
    sums, series = ({key: values[0] for key, values in query.items()} for query in links)

    header, *rows = file_of(accountant, **sums)
    assert header == ["owner", "unit", "1h", "24h", "7d", "30d"]
    assert [(row[1], [Decimal(cell) for cell in row[2:]]) for row in rows] == [
        ("EUR", [Decimal(amount) for amount in (0, 0, 3, 3)]),
        ("USD", [Decimal("0.00000012")] * 4),
    ]
    assert not any("E" in cell for row in rows for cell in row[2:])
    header, *rows = file_of(accountant, **series)
    assert header == ["begins", "owner", "unit", "amount"]
    assert [(row[1], row[2], Decimal(row[3])) for row in rows] == [
        ("anna", "EUR", Decimal(3)),
        ("anna", "USD", Decimal("0.00000012")),
    ]
    assert all(row[0].endswith("T00:00:00+05:30") for row in rows)


def test_a_file_is_saved_and_never_shown_as_a_page(accountant: Client) -> None:
    CostFactory.create(owner="<script>1</script>")

    answer = accountant.get(CSV, {"by": "owner"})

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="costs-by-owner.csv"'
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "owner", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", '=HYPERLINK("http://x","a,b")']
)
def test_no_cell_is_a_formula(accountant: Client, owner: str) -> None:
    CostFactory.create(owner=owner)

    for of in ("sums", "series"):
        rows = list(
            csv.reader(io.StringIO(accountant.get(CSV, {"by": "owner", "of": of}).content.decode(), newline=""))
        )
        assert rows[1][("sums", "series").index(of)] == f"'{owner}"


def test_a_refund_stays_a_number(accountant: Client) -> None:
    CostFactory.create(owner="anna", amount="-0.5")

    assert Decimal(file_of(accountant, by="owner")[1][2]) == Decimal("-0.5")
    assert downloads.guarded("plain") == "plain"


def test_names_are_text(accountant: Client) -> None:
    evil = "<svg onload=1>{{ 1 }}"
    for part in ("job_type", "queue", "component", "owner", "unit"):
        CostFactory.create(**{part: evil})

    for part in ("job_type", "queue", "component", "owner"):
        html = page(accountant, by=part, unit=evil).content.decode()
        assert "<svg onload" not in html
        assert "&lt;svg onload" in html


def test_the_page_reads_the_same_for_many_rows(accountant: Client, settings: Any) -> None:
    settings.JOBQUEUE = {"BUDGETS": {f"budget-{number}": {**BUDGET, "at_limit": "alert"} for number in range(5)}}

    def reads() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            page(accountant)
        passing = ("SAVEPOINT", "RELEASE", "ROLLBACK")
        return [
            query["sql"]
            for query in captured.captured_queries
            if not query["sql"].startswith(passing) and "set_config(" not in query["sql"]
        ]

    few = reads()
    for number in range(120):
        CostFactory.create(job_type=f"type-{number}", owner=str(number))
        JobFactory.create(status=Status.DONE, cost_total="1")

    assert len(reads()) == len(few) <= 15
    assert len(page(accountant).context["rows"]) == 100
    assert "20 more are in the file." in page(accountant).content.decode()


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_read_is_unknown_and_the_rest_stands(
    client_of: ClientOf, open_connection: Callable[[], SecondConnection]
) -> None:
    accountant, other = client_of("view_cost"), open_connection()
    JobFactory.create(status=Status.DONE, cost_total="4")
    other.execute("BEGIN")
    other.execute("LOCK TABLE jobqueue_cost IN ACCESS EXCLUSIVE MODE")

    answer = page(accountant)
    file = accountant.get(CSV)

    assert answer.content.decode().count("Unknown: adding it up takes too long.") >= 2
    assert [job["total"] for job in answer.context["costliest"]] == ["4.00"]
    assert file.status_code == 302


def test_too_many_parts_leave_the_chart_and_its_totals(accountant: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        CostFactory.create(owner=f"owner-{number}")
    monkeypatch.setattr(cost_page, "POINTS", 3)
    monkeypatch.setattr(cost_page, "LINES", 3)

    answer = page(accountant, by="owner")

    assert answer.context["behind"]["rows"][0][1] == ["0.40"]
    assert "there are too many parts" in answer.content.decode()
    assert accountant.get(CSV, {"by": "owner", "of": "series"}).status_code == 302
