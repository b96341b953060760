"""The maintenance thread: one service that fails does not take the others along."""

import logging
from datetime import timedelta

import pytest

from jobqueue.maintenance.loop import Maintenance

pytestmark = pytest.mark.django_db


class Failing:
    """A service with a defect that is no error of the database."""

    interval_seconds = 1.0
    more = False

    def __init__(self, name: str) -> None:
        self.name = name

    def run_once(self) -> dict[str, int]:
        """Fail as a rule would that somebody wrote wrongly."""
        return {"quotient": 1 // 0}


@pytest.fixture
def maintenance() -> Maintenance:
    """Return the thread, not started."""
    return Maintenance("default", "w1", lease=timedelta(seconds=20), woke=lambda queue: None)


@pytest.mark.parametrize("name", ["alerts", "budgets"])
def test_rules_of_people_that_fail_are_told_and_tried_again_later(
    name: str, maintenance: Maintenance, caplog: pytest.LogCaptureFixture
) -> None:
    """An alert rule in the admin once ended the thread, and with it every worker."""
    with caplog.at_level(logging.WARNING, "jobqueue.maintenance"):
        maintenance._run_service(Failing(name))

    assert f"maintenance failed service={name} error=ZeroDivisionError" in caplog.text
    assert maintenance._due[name] > maintenance._due["reap"] + 5


def test_a_defect_of_the_products_own_is_not_hidden(maintenance: Maintenance) -> None:
    """The worker ends, and its supervisor starts it anew: jobs that nobody takes back must not go unnoticed."""
    with pytest.raises(ZeroDivisionError):
        maintenance._run_service(Failing("reap"))
