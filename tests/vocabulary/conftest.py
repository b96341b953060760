"""Fixtures for the lowest floor: apps made on the spot, each with a module of handlers."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pytest_django import Settings

from jobqueue import registry as registry_module
from jobqueue.registry import Registry, registry


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return an empty registry that @job registers with for the length of the test."""
    # The project's own modules are imported only once: they must not end up in the registry of one test.
    registry.load()
    fresh = Registry()
    monkeypatch.setattr(registry_module, "registry", fresh)
    return fresh


@pytest.fixture
def make_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Return a function that writes an importable app: its name, then its files by name and source."""
    made: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, **files: str) -> str:
        made.append(name)
        (tmp_path / name).mkdir()
        for module, source in {"__init__": "", **files}.items():
            (tmp_path / name / f"{module}.py").write_text(dedent(source))
        return name

    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] in made]:
        del sys.modules[module]


@pytest.fixture
def install(settings: Settings) -> Callable[..., None]:
    """Return a function that makes these apps the installed ones, after jobqueue and what its models need."""

    def install(*names: str) -> None:
        settings.INSTALLED_APPS = ["jobqueue", "django.contrib.auth", "django.contrib.contenttypes", *names]

    return install
