"""Every code block of every page: Python runs, commands and their options exist, SQL runs, the rest parses.

What a block is, is said by its language. ``sh`` are commands, ``console`` is a session of which the lines with "$ " are
commands, ``text`` is what a program prints or an illustration. The quickstart and the tutorial are followed word by
word elsewhere (test_walks.py), and the stubs of api.md are made from the code (test_reference.py).
"""

import configparser
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import prometheus_client
import pytest
import yaml
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandParser, get_commands, load_command_class
from django.db import connection, transaction
from django.test import RequestFactory
from django.urls import reverse

from jobqueue.contrib.tasks_db.management.commands import jobqueue_adopt_tasks_db
from jobqueue.registry import registry
from tests.docs.pages import FENCE, ROOT, Block, blocks, name_of, pages
from tests.factories import JobFactory

LANGUAGES = {
    *("python", "sh", "console", "crontab", "sql", "json", "yaml", "ini", "dockerfile", "mermaid", "text", "toml"),
}
WALKED = {"quickstart.md", "tutorial.md", "api.md"}
RUN = [page for page in pages() if page.name not in WALKED and blocks(page)]
# What a page may take for granted, as its reader does: programs of a shell, and the separators between commands.
PROGRAMS = {
    *("python", "python3", "pip", "make", "pytest", "export", "curl", "createdb", "django-admin", ".", "cd", "psql"),
    *("docker", "kubectl", "systemctl", "sudo", "journalctl", "kill"),
}
BETWEEN = {"|", "&&", ";", ">", "||", "&"}
DIAGRAMS = ("flowchart", "sequenceDiagram", "stateDiagram")
INSTRUCTION = re.compile(
    r"(FROM|RUN|COPY|ENV|WORKDIR|USER|CMD|ENTRYPOINT|EXPOSE|ARG|STOPSIGNAL|HEALTHCHECK|LABEL|#|\s)"
)
# Examples that cannot run here, by a line of them, and why.
NOT_RUN: dict[str, str] = {
    "@pytest.mark.jobqueue_eager": "needs the marker of the plugin, which tests/testing shows",
}


def all_blocks(language: str) -> list[Block]:
    """Return the blocks of a language in all pages."""
    return [block for page in pages() for block in blocks(page, language)]


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the commands of a block, split as a shell would."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        elif block.language == "crontab":
            line = line.split(maxsplit=5)[5]
        words: list[str] = []
        for word in shlex.split(line, comments=True):
            if word in BETWEEN:
                yield words
                words = []
            elif words or not re.match(r"[A-Z_]+=", word):
                words.append(word)
        if words:
            yield words


def named(name: str) -> BaseCommand:
    """Return a command of manage.py."""
    if name == "jobqueue_adopt_tasks_db":
        return jobqueue_adopt_tasks_db.Command()
    app = get_commands()[name]
    return app if isinstance(app, BaseCommand) else load_command_class(app, name)


def parser(name: str) -> CommandParser:
    """Return a command's parser, which takes any name for what is the reader's own: an alias, an alert."""
    made = named(name).create_parser("manage.py", name)
    for action in made._actions:
        if action.dest in {"database", "name"}:
            action.choices = None
    return made


COMMANDS = [
    (name_of(block.page), words)
    for language in ("sh", "console", "crontab")
    for block in all_blocks(language)
    for words in commands(block)
]


def test_every_block_says_what_it_is() -> None:
    found = [
        f"{name_of(page)}: {language or 'no language'}: {text[:40]!r}"
        for page in pages()
        for language, text in FENCE.findall(page.read_text(encoding="utf-8"))
        if language not in LANGUAGES
    ]

    assert found == []


@pytest.fixture
def same_admins() -> Iterator[None]:
    """Put the admins back that a page replaces by its own."""
    reverse("admin:index")  # the addresses are those of the admins that are there by now
    kept = dict(admin.site._registry)
    yield
    admin.site._registry.clear()
    admin.site._registry.update(kept)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_python_of_the_page_runs(page: Path, db: None, same_admins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in the module shop.jobs, each block within a savepoint; what it registers is forgotten afterwards."""
    module, package = ModuleType("shop.jobs"), ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop.jobs", module)
    monkeypatch.setitem(sys.modules, "shop", package)
    package.jobs = module  # type: ignore[attr-defined]
    monkeypatch.chdir(ROOT)
    registry.load()
    for name in ("_handlers", "_aliases"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(prometheus_client, "REGISTRY", prometheus_client.CollectorRegistry())
    module.__dict__["request"] = RequestFactory().get("/")
    module.__dict__["request"].user = User.objects.create_superuser("anna")
    JobFactory.create()
    ran = 0
    for block in blocks(page):
        if not any(line in block.text for line in NOT_RUN):
            with transaction.atomic():
                exec(compile(block.text, name_of(page), "exec"), module.__dict__)
            ran += 1

    assert ran, "a page all of whose examples are left out"


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=lambda each: each if isinstance(each, str) else " ".join(each)
)
def test_the_command_exists_and_has_its_options(
    page: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, *rest = words
    program = Path(program).name if program != "." else program
    assert program in PROGRAMS, page
    if "manage.py" in rest:
        name, *arguments = rest[rest.index("manage.py") + 1 :]
        try:
            parser(name).parse_args(arguments)
        except SystemExit:
            pytest.fail(f"{page}: {' '.join(words)}: {capsys.readouterr().err}")
    elif program == "make":
        for target in (word for word in rest if "=" not in word):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{page}: make {target}"
    elif rest[:1] == ["-m"] and rest[1] not in {"pip", "venv"}:
        assert importlib.util.find_spec(rest[1]), f"{page}: python -m {rest[1]}"
    if "install" in rest:
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        extras = {
            extra for word in rest for found in re.findall(r"jobqueue\[([\w,]+)\]", word) for extra in found.split(",")
        }
        assert extras <= set(setup["options.extras_require"]), page


def read_ini(text: str) -> None:
    """Parse a unit of systemd: keys may be repeated."""
    configparser.ConfigParser(strict=False, interpolation=None).read_string(text)


def read_dockerfile(text: str) -> None:
    """Look at each line's instruction."""
    wrong = [line for line in text.replace("\\\n", "").splitlines() if line and not INSTRUCTION.match(line)]
    assert wrong == []


def read_diagram(text: str) -> None:
    """Look at the kind, and that what is opened is closed."""
    assert text.split(maxsplit=1)[0] in DIAGRAMS
    assert len(re.findall(r"^\s*subgraph ", text, re.MULTILINE)) == len(re.findall(r"^\s*end$", text, re.MULTILINE))


READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "ini": read_ini,
    "dockerfile": read_dockerfile,
    "mermaid": read_diagram,
}


@pytest.mark.parametrize("language", READERS)
def test_what_is_data_parses(language: str) -> None:
    for block in all_blocks(language):
        try:
            READERS[language](block.text)
        except Exception as error:
            pytest.fail(f"{name_of(block.page)}: {error}")


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page, "sql")], ids=lambda page: page.stem)
def test_the_sql_of_the_page_runs(page: Path, transactional_db: None) -> None:
    """In order, in one transaction that is rolled back. Roles are the whole server's, so here they have other names."""
    text = "".join(block.text for block in blocks(page, "sql"))
    made = set(re.findall(r"CREATE ROLE (\w+)", text))
    granted = {role.strip() for roles in re.findall(r"\bTO (\w[\w, ]*)", text) for role in roles.split(",")}
    for role in made | granted:
        text = re.sub(rf"\b{role}\b", f"{role}_{os.getpid()}", text)
    with transaction.atomic(), connection.cursor() as cursor:
        for role in granted - made:  # the reader's own
            cursor.execute(f"CREATE ROLE {role}_{os.getpid()}")
        cursor.execute(text)
        transaction.set_rollback(True)
