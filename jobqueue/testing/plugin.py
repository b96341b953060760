"""The pytest plugin: fixtures for the tests of a project. setup.cfg names it as an entry point.

It imports nothing of Django before a fixture is asked for, and does nothing in a project without jobqueue in
INSTALLED_APPS. The fixtures need pytest-django; without it use what they are made of, in jobqueue.testing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from jobqueue.testing import CapturedJobs

MARKER: Final = "jobqueue_eager"

#: pytest-django, as an entry point and by -p.
_PROVIDERS: Final = ("django", "pytest_django.plugin")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker, and have the fixtures where pytest-django provides the database that they use."""
    config.addinivalue_line(
        "markers", f"{MARKER}(without_backoff, raise_errors, …): options of the fixture of that name"
    )
    if any(config.pluginmanager.hasplugin(name) for name in _PROVIDERS):
        config.pluginmanager.register(Fixtures(), "jobqueue_fixtures")


class Fixtures:
    """What tests ask for by name; those that read jobs ask for `db` themselves."""

    @pytest.fixture
    def jobqueue_eager(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Run what the test enqueues as soon as it is committed; options are those of the test's marker."""
        _check_installed()
        from jobqueue.testing import eager  # noqa: PLC0415  (pytest loads this before Django has settings)

        marker = request.node.get_closest_marker(MARKER)
        with eager(**(marker.kwargs if marker else {})):
            yield

    @pytest.fixture
    def jobqueue_jobs(self, db: None) -> Iterator[CapturedJobs]:
        """Return the jobs that the test has enqueued so far."""
        _check_installed()
        from jobqueue.testing import capture_jobs  # noqa: PLC0415  (pytest loads this before Django has settings)

        with capture_jobs() as jobs:
            yield jobs

    @pytest.fixture
    def jobqueue_drain(self, db: None) -> Callable[..., list[tuple[int, Any]]]:
        """Return drain(), which runs what is due."""
        _check_installed()
        from jobqueue.testing import drain  # noqa: PLC0415  (pytest loads this before Django has settings)

        return drain

    @pytest.fixture
    def jobqueue_travel(self, db: None) -> Callable[..., None]:
        """Return travel(), which lets time pass for all jobs."""
        _check_installed()
        from jobqueue.testing import travel  # noqa: PLC0415  (pytest loads this before Django has settings)

        return travel


def _check_installed() -> None:
    from django.apps import apps  # noqa: PLC0415  (pytest loads this before Django has settings)

    if not apps.is_installed("jobqueue"):
        pytest.fail("jobqueue is not in INSTALLED_APPS: this fixture has no jobs to work on", pytrace=False)
