"""The pytest plugin: fixtures where a test asks for them, and nothing where nobody does."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "jobqueue.testing.plugin"
STRANGER = """
import sys

import pytest


def test_no_setting_of_django_was_read_and_no_model_made():
    from django.conf import settings

    assert not settings.configured
    assert "jobqueue.models" not in sys.modules
    assert "jobqueue.testing.running" not in sys.modules


@pytest.mark.skipif("django" not in {plugins!r}, reason="the fixtures need pytest-django")
@pytest.mark.parametrize("name", ["jobqueue_eager"])
def test_a_fixture_says_what_is_missing(name, request):
    from django.conf import settings

    settings.configure(INSTALLED_APPS=[])
    import django

    django.setup()
    with pytest.raises(pytest.fail.Exception, match="jobqueue is not in INSTALLED_APPS"):
        request.getfixturevalue(name)
"""


def run(*arguments: str, folder: Path = ROOT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a pytest of its own, with the plugin loaded as the entry point would."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "DJANGO_"))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_package_names_the_plugin() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")

    assert f"jobqueue = {PLUGIN}" in setup["options.entry_points"]["pytest11"].splitlines()


def test_the_fixtures_and_the_examples_of_the_page_do_what_they_say() -> None:
    ran = run("-p", "pytest_django.plugin", "--nomigrations", "tests/testing/plugged.py", "tests/testing/page.py")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "22 passed" in ran.stdout


@pytest.mark.parametrize("plugins", [(), ("django",)])
def test_in_a_project_of_others_it_does_nothing(tmp_path: Path, plugins: tuple[str, ...]) -> None:
    (tmp_path / "test_others.py").write_text(STRANGER.replace("{plugins!r}", repr(plugins)))
    options = ("-p", "pytest_django.plugin") if plugins else ()

    ran = run("--strict-markers", *options, "test_others.py", folder=tmp_path)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ("2 passed" if plugins else "1 passed, 1 skipped") in ran.stdout
