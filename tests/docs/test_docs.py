"""What the pages say of settings, options, checks, files and links is what the code has."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.core.management import BaseCommand, CommandParser, find_commands, get_commands
from django.db.models import Model

from jobqueue import checks, sql
from jobqueue.conf import JobQueueSettings
from jobqueue.contrib import tasks_db
from jobqueue.contrib.tasks_db.management.commands import jobqueue_adopt_tasks_db
from jobqueue.management.commands import (
    jobqueue_alerts,
    jobqueue_costs,
    jobqueue_doctor,
    jobqueue_health,
    jobqueue_ops,
    jobqueue_prune,
    jobqueue_queue,
    jobqueue_redrive,
    jobqueue_run,
    jobqueue_worker,
)
from jobqueue.rules import RULES
from jobqueue.states import TRANSITIONS, Status
from tests.docs.pages import ROOT, anchors, links, name_of, pages, prose, rows
from tests.faults import report
from tests.faults.cases import CASES

DOCS = ROOT / "docs"
SETTINGS = {row[0].strip("`"): row for row in rows(DOCS / "settings.md", "setting")}
BOUNDED = [name for name, row in SETTINGS.items() if " to " in row[2]]


def options(command: BaseCommand) -> set[str]:
    parser = CommandParser()
    command.add_arguments(parser)
    return {action.option_strings[0] for action in parser._actions if action.option_strings} - {"-h"}


def test_every_setting_is_documented_and_every_documented_one_exists() -> None:
    assert sorted(SETTINGS) == sorted(field.name for field in fields(JobQueueSettings))


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_default_in_the_table_is_that_of_the_code(setting: str) -> None:
    assert ast.literal_eval(SETTINGS[setting][1].strip("`")) == getattr(JobQueueSettings(), setting)


@pytest.mark.parametrize("setting", BOUNDED)
def test_the_bounds_in_the_table_are_those_of_the_code(setting: str) -> None:
    low, high = (ast.literal_eval(bound.replace(",", "")) for bound in SETTINGS[setting][2].split(" to "))
    kind = str(next(field.type for field in fields(JobQueueSettings) if field.name == setting))
    step = 1 if kind.startswith("int") else 0.001

    assert [RULES[setting](value) for value in (low, high)] == [low, high]

    for beyond in (low - step, high + step):
        with pytest.raises(ValueError, match=r"must be from"):
            RULES[setting](beyond)


def test_every_number_among_the_settings_has_its_bounds_in_the_table() -> None:
    numbers = [field.name for field in fields(JobQueueSettings) if str(field.type).startswith(("int", "float"))]

    assert sorted(numbers) == sorted(BOUNDED)


def test_every_worker_option_is_documented_and_every_documented_one_exists() -> None:
    documented = {row[0].strip("`") for row in rows(DOCS / "worker.md", "option")}

    assert documented == options(jobqueue_worker.Command())


def test_every_option_of_the_other_commands_is_documented_and_every_documented_one_exists() -> None:
    modules = (
        *(jobqueue_alerts, jobqueue_costs, jobqueue_health, jobqueue_ops),
        *(jobqueue_doctor, jobqueue_run, jobqueue_redrive, jobqueue_prune, jobqueue_queue, jobqueue_adopt_tasks_db),
    )
    commands = [module.Command() for module in modules]
    documented = [row[0].strip("`") for row in rows(DOCS / "commands.md", "option")]

    assert sorted(documented) == sorted(name for command in commands for name in options(command) - {"--database"})


def test_every_system_check_is_documented_and_every_documented_one_exists() -> None:
    package = Path(checks.__file__).parent
    folders = [*(package / "backends").glob("*.py"), *(package / "contrib").rglob("*.py")]
    code = "".join(path.read_text() for path in [package / "checks.py", *folders])
    in_code = re.findall(r'id="(jobqueue\.[EW]\d+)"', code)
    documented = [row[0].strip("`") for row in rows(DOCS / "settings.md", "id")]

    assert sorted(documented) == sorted(set(in_code))


def test_the_table_of_states_is_that_of_the_code() -> None:
    moves_without_a_verb = {
        (Status.PENDING, Status.SCHEDULED),
        (Status.SCHEDULED, Status.SCHEDULED),
    }  # the page says so
    documented = {
        (Status[row[0].split()[1]], Status[wanted])
        for row in rows(DOCS / "states.md", "status")
        for wanted in re.findall(r"[A-Z]+", row[2])
    }

    allowed = {(current, wanted) for current, many in TRANSITIONS.items() for wanted in many}
    assert documented == allowed - moves_without_a_verb


def test_the_permissions_that_the_admin_page_names_exist() -> None:
    models = apps.get_app_config("jobqueue").get_models()
    existing = {f"jobqueue.{codename}" for model in models for codename in permissions_of(model)}

    assert set(re.findall(r"`(jobqueue\.\w+)`", prose(DOCS / "admin.md"))) - {"jobqueue.operations"} <= existing


def permissions_of(model: type[Model]) -> list[str]:
    options = model._meta
    return [
        *(get_permission_codename(action, options) for action in options.default_permissions),
        *(codename for codename, _ in options.permissions),
    ]


def test_the_statements_that_the_states_page_names_exist() -> None:
    named = {name for row in rows(DOCS / "states.md", "change") for name in re.findall(r"`(\w+)`", row[3])}

    assert {name for name in named if not hasattr(sql, name.upper())} == set()


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    broken = []
    for page in pages():
        for target in links(page):
            path, _, anchor = target.partition("#")
            goal = (page.parent / path).resolve() if path else page
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                broken.append(f"{name_of(page)}: {target}")

    assert broken == []


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in links(ROOT / "README.md")}

    assert [name_of(page) for page in pages() if page not in linked and page.name != "README.md"] == []


def test_the_files_and_modules_that_pages_name_exist() -> None:
    named = {
        (name_of(page), path)
        for page in pages()
        for path in re.findall(r"`((?:jobqueue|project|tests)/[\w/]+(?:\.\w+)?/?)`", prose(page))
    }

    assert sorted(pair for pair in named if not (ROOT / pair[1]).exists()) == []


def test_the_commands_that_pages_name_exist() -> None:
    named = {
        (name_of(page), command) for page in pages() for command in re.findall(r"manage\.py (\w+)", page.read_text())
    }

    known = {*get_commands(), *find_commands(str(Path(tasks_db.__file__).parent / "management"))}

    assert sorted(pair for pair in named if pair[1] not in known) == []


def test_exactly_once_is_promised_of_nothing_but_effects_in_the_jobs_own_transaction() -> None:
    paragraphs = [
        (name_of(page), paragraph)
        for page in pages()
        for paragraph in re.split(r"\n\s*\n|\n(?=- )", prose(page))
        if "exactly once" in paragraph.lower()
    ]

    assert paragraphs
    assert [pair for pair in paragraphs if "database effects" not in pair[1].replace("\n", " ")] == []


def test_no_line_of_prose_is_longer_than_140_characters() -> None:
    long = [
        f"{name_of(page)}:{number}"
        for page in pages()
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 140 and not line.startswith("|")
    ]

    assert long == []


def test_the_page_of_faults_is_what_the_suite_would_write() -> None:
    assert report.PAGE.read_text() == report.page(), "run `python -m tests.faults.report`"


def test_every_case_is_shown_by_a_test() -> None:
    shown = {case for test in report.tests() for case in test.cases}

    assert sorted(CASES.keys() - shown) == []


def test_the_scenarios_that_the_guarantees_name_exist() -> None:
    named = re.findall(r"`(test_\w+)::(\w+)`", (DOCS / "guarantees.md").read_text())
    existing = {(Path(test.file).stem, test.name.removeprefix("test_")) for test in report.tests()}

    assert len(named) > 30
    assert sorted(set(named) - existing) == []
