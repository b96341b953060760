"""Write docs/api.md: what a project may call, from its signatures and docstrings. See reference.py."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from django.db import models

import jobqueue
from jobqueue import backends, exceptions, operations, outbox, signals, states, testing
from jobqueue.managers import JobManager, JobQuerySet, Moved
from jobqueue.models import Job

WIDTH = 100
# Verbs of the worker and of the package's own pages: public in Python, and of no use to a project.
INTERNAL = {"BadPath", "NoEdit", "NoteChanged", "Seen", "Targets", "User", "Asked", "asked_from", "name_of", "refused"}
RUN_BY_WORKERS = {
    *("claim", "complete", "fail", "release", "renew_lease", "reap", "promote", "prune", "release_stuck", "mark_dead"),
    *("edit_payload", "edit_payloads", "enqueue_arrival", "enqueue_arrivals", "run_sql", "write_db", "get_queryset"),
}

API_HEAD = """\
# The public API

What a project may call, with its docstrings. Everything else is the package's own and may change in any release. This
page is made from the code by `make reference`; a test compares.

Most projects need [`job`](#job), [`Job.objects.enqueue`](#jobobjectsenqueue) and nothing else. What a handler gets is
told in [handlers.md](handlers.md#what-the-context-offers).
"""


class Section(NamedTuple):
    """One heading of the page: its text, the words before the names, the names in front of which stands a prefix."""

    title: str
    text: str
    prefix: str
    members: list[tuple[str, Any]]


def api_page() -> str:
    """Return docs/api.md."""
    found = list(sections())
    contents = [f"- [{each.title}](#{anchor(each.title)}){names_of(each)}" for each in found]
    return "\n".join([API_HEAD, *contents, "", *(line for each in found for line in lines_of(each))]).rstrip() + "\n"


def anchor(title: str) -> str:
    """Return the anchor that a heading makes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def names_of(section: Section) -> str:
    """Return the names of a section that is short, for the list at the top."""
    names = [f"`{name}`" for name, _ in section.members]
    return f": {', '.join(names)}" if names and len(", ".join(names)) < 90 else ""


def sections() -> Iterator[Section]:
    """Yield what is public, module by module."""
    yield Section("jobqueue", "For handlers.", "", exported(jobqueue))
    manager = [(name, each) for name, each in methods(JobManager) if name not in RUN_BY_WORKERS]
    yield Section("jobqueue.models: Job.objects", MANAGER, "Job.objects.", manager)
    yield Section("A QuerySet of jobs", "The rows; it is Django's otherwise.", "QuerySet.", list(methods(JobQuerySet)))
    own = [(name, each) for name, each in methods(Job) if name not in {"save", "refresh_from_db", "clean", "fence"}]
    yield Section("jobqueue.models: Job", JOB, "Job.", own)
    yield Section("What a verb returns", doc(Moved), "Moved.", list(methods(Moved)))
    acting = [(name, each) for name, each in exported(operations) if name not in INTERNAL]
    yield Section("jobqueue.operations", doc(operations), "operations.", acting)
    yield Section("jobqueue.outbox", doc(outbox), "outbox.", exported(outbox))
    yield Section("jobqueue.testing", doc(testing), "testing.", exported(testing))
    yield Section("jobqueue.backends", doc(backends), "backends.", exported(backends))
    yield Section("jobqueue.states", doc(states), "states.", [("Status", states.Status)])
    yield Section("jobqueue.exceptions", doc(exceptions), "", list(errors()))
    yield Section("jobqueue.signals", doc(signals), "signals.", list(sent()))


MANAGER = """\
Code changes jobs by these verbs; each is one fenced statement. They check no permission and write no audit: what
people do goes through [jobqueue.operations](#jobqueueoperations)."""
JOB = "A row of `jobqueue_job`. Read, filter and order by its fields as of any model; saving one is refused."


def exported(module: Any) -> list[tuple[str, Any]]:
    """Return what a module exports, but constants."""
    found = [(name, getattr(module, name)) for name in sorted(module.__all__)]
    return [(name, each) for name, each in found if inspect.isclass(each) or inspect.isfunction(each)]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that the package defines on a class, in order of their names."""
    for name in sorted(dir(kind)):
        each = inspect.getattr_static(kind, name)
        call = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
        if not name.startswith("_") and inspect.isfunction(call) and call.__module__.startswith("jobqueue."):
            yield name, call


def errors() -> Iterator[tuple[str, Any]]:
    """Yield the exceptions, in the order of the module."""
    for name, each in vars(exceptions).items():
        own = inspect.isclass(each) and issubclass(each, BaseException) and each.__module__ == exceptions.__name__
        if own and not name.startswith("_") and name not in jobqueue.__all__:
            yield name, each


def sent() -> Iterator[tuple[str, str]]:
    """Yield each signal with the comment that stands above it."""
    source = Path(signals.__file__).read_text(encoding="utf-8")
    for comment, name in re.findall(r"((?:^#: .*\n)+)(\w+) = \w*Signal\(\)", source, re.MULTILINE):
        yield name, re.sub(r"^#: ", "", comment, flags=re.MULTILINE).strip()


def lines_of(section: Section) -> Iterator[str]:
    """Yield a section as Markdown."""
    yield f"## {section.title}\n"
    yield f"{markdown(section.text)}\n"
    for name, each in section.members:
        yield f"### {section.prefix}{name}\n"
        if isinstance(each, str):
            yield f"{markdown(each)}\n"
            continue
        if stub := signature(name, each):
            yield f"```python\n{stub}\n```\n"
        if text := doc(each):
            yield f"{markdown(text)}\n"


def doc(each: Any) -> str:
    """Return the docstring, or nothing where it is the one that a dataclass makes of its fields."""
    text = inspect.getdoc(each) or ""
    return "" if text.startswith(f"{getattr(each, '__name__', '')}(") else text


def markdown(text: str) -> str:
    """Return a docstring as Markdown: an indented block is code, doubled backticks are single ones."""
    text = text.replace("``", "`")
    return re.sub(
        r"(?:^ {4}.*\n?)+", lambda found: f"```python\n{textwrap.dedent(found[0])}\n```\n", text, flags=re.MULTILINE
    ).replace("\n\n```\n\n", "\n```\n\n")


def signature(name: str, each: Any) -> str:
    """Return a stub of a function, or of how a class is made; "" for a class that only the package makes."""
    kind = inspect.isclass(each)
    if kind and (issubclass(each, models.IntegerChoices) or "__init__" not in vars(each)):
        return ""
    made = inspect.signature(each)
    word = "async def" if inspect.iscoroutinefunction(each) else "def"
    pieces = [*(["self"] if kind else []), *arguments(made.parameters.values())]
    back = "" if kind or made.return_annotation is made.empty else f" -> {annotation(made.return_annotation)}"
    called = "__init__" if kind else name
    line = f"{word} {called}({', '.join(pieces)}){back}: ..."
    if len(line) > WIDTH:
        line = f"{word} {called}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){back}: ..."
    return f"class {name}:\n{textwrap.indent(line, '    ')}" if kind else line


def arguments(parameters: Any) -> Iterator[str]:
    """Yield the parameters as they are written, "*" and "/" included."""
    starred = False
    for each in parameters:
        if each.name == "self":
            continue
        if each.kind is each.VAR_POSITIONAL or each.kind is each.KEYWORD_ONLY:
            if each.kind is each.KEYWORD_ONLY and not starred:
                yield "*"
            starred = True
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {annotation(each.annotation)}"
        equals = " = " if kind else "="
        yield f"{stars}{each.name}{kind}{'' if each.default is each.empty else equals + default(each.default)}"


def annotation(kind: Any) -> str:
    """Return a type as it is written."""
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def default(value: Any) -> str:
    """Return a default as Python reads it, "..." where it is an object of the package."""
    text = repr(value).replace("'", '"')
    return "..." if "<" in text or "object at" in text or "datetime" in text else text
