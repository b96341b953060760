"""What pip installs has all that the app reads, and nothing of the tests, the example project and the benchmarks."""

import configparser
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.adoption.building import LEFT_OVER, ROOT, Built, install, run_hook
from tests.docs.pages import rows

EXTRAS = {"binary", "metrics", "otel", "tasks", "test", "web", "webhooks"}


def files_of(package: str) -> set[str]:
    """Return the files that a checkout has below a folder, but those that running it left behind."""
    found = set()
    for path in (ROOT / package).rglob("*"):
        left_over = LEFT_OVER(str(path.parent), [path.name]) or "__pycache__" in path.parts
        if path.is_file() and not left_over:
            found.add(str(path.relative_to(ROOT)))
    return found


def required(built: Built, extra: str | None) -> set[str]:
    """Return the names that are required always, or by an extra."""
    names = set()
    for line in built.metadata().get_all("Requires-Dist", []):
        name, _, marker = line.partition(";")
        if (f'extra == "{extra}"' in marker) if extra else "extra" not in marker:
            names.add(re.split(r"[<>=! \[]", name, maxsplit=1)[0])
    return names


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    shipped = {name for name in built.wheel_names() if ".dist-info/" not in name}

    assert shipped == files_of("jobqueue")


@pytest.mark.parametrize(
    "pattern",
    [
        r"jobqueue/py\.typed",
        r"jobqueue/sql/claim_jobs\.sql",
        r"jobqueue/templates/admin/jobqueue/.+\.html",
        r"jobqueue/static/jobqueue/.+\.js",
        r"jobqueue/static/jobqueue/.+\.css",
        r"jobqueue/locale/de/LC_MESSAGES/django\.mo",
        r"jobqueue/locale/ko/LC_MESSAGES/django\.mo",
        r"jobqueue/migrations/0001_initial\.py",
        r"jobqueue/management/commands/runworker\.py",
        r"jobqueue-[\d.]+\.dist-info/licenses/LICENSE",
    ],
)
def test_the_wheel_has_what_is_read_beside_the_code(built: Built, pattern: str) -> None:
    assert [name for name in built.wheel_names() if re.fullmatch(pattern, name)]


def test_the_sdist_has_the_package_and_the_pages_but_no_tests_project_or_benchmarks(built: Built) -> None:
    names = built.sdist_names()

    assert files_of("jobqueue") <= names
    assert {"CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "docs/settings.md", "setup.cfg"} <= names
    assert {"docs/grafana-dashboard.json", "docs/prometheus-alerts.yml"} <= names
    assert {name.split("/")[0] for name in names} & {"benchmarks", "project", "tests"} == set()


def test_a_file_that_is_gone_from_the_checkout_is_not_in_its_next_wheel(built: Built, tmp_path: Path) -> None:
    """`pip install ../jobqueue` builds in the checkout: a migration that was renamed since would be installed twice."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [checkout] = tmp_path.iterdir()
    gone = checkout / "jobqueue" / "migrations" / "9999_gone.py"

    def wheel_of(dist: str) -> set[str]:
        (tmp_path / dist).mkdir()
        return Built(built.sdist, tmp_path / dist / run_hook("build_wheel", checkout, tmp_path / dist)).wheel_names()

    gone.touch()
    assert "jobqueue/migrations/9999_gone.py" in wheel_of("first")
    gone.unlink()
    assert "jobqueue/migrations/9999_gone.py" not in wheel_of("second")


def test_django_and_psycopg_are_the_only_requirements(built: Built) -> None:
    assert required(built, None) == {"django", "psycopg"}


def test_each_extra_requires_something(built: Built) -> None:
    extras = set(built.metadata().get_all("Provides-Extra", []))

    assert extras >= EXTRAS
    assert [extra for extra in sorted(extras) if not required(built, extra)] == []


def test_the_page_of_installing_names_each_extra_and_what_it_brings(built: Built) -> None:
    told = {
        row[0].strip("`"): set(re.findall(r"`([\w-]+)", row[1])) for row in rows(ROOT / "docs" / "install.md", "extra")
    }

    assert told.keys() == set(built.metadata().get_all("Provides-Extra", []))
    assert {extra: names - {"test"} for extra, names in told.items()} == {
        extra: required(built, extra) - {"jobqueue"} for extra in told
    }


def test_the_metadata_tells_licence_versions_and_what_it_is(built: Built) -> None:
    metadata = built.metadata()

    assert [metadata[name] for name in ("Name", "License-Expression", "Requires-Python")] == [
        "jobqueue",
        "MIT",
        ">=3.11",
    ]
    assert {"Framework :: Django :: 5.2", "Typing :: Typed"} <= set(metadata.get_all("Classifier", []))
    assert metadata.get_payload().startswith("# jobqueue")


def test_pytest_finds_each_plugin_of_the_installed_wheel(built: Built, tmp_path: Path) -> None:
    """The wheel stands before the checkout on the path, so what is loaded is what pip would have laid there."""
    parser = configparser.ConfigParser()
    parser.read_string(built.text("entry_points.txt"))
    plugins = dict(parser["pytest11"])
    install(built, tmp_path)
    code = "import importlib, sys; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]), sep='\\n')"

    done = subprocess.run(
        [sys.executable, "-c", code, *plugins.values()],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "jobqueue_conformance" in plugins
    assert [path for path in done.stdout.split() if not Path(path).is_relative_to(tmp_path)] == []
