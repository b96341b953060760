"""The setting BUDGETS: what a budget may say, whose jobs it covers, which level a sum has reached."""

from decimal import Decimal
from typing import Any

import pytest

from jobqueue.budgets import BudgetTerms, budgets, refusing
from jobqueue.conf import build, problems
from jobqueue.exceptions import ConfigurationError

LEAST: dict[str, Any] = {"amount": "1", "per": "hour"}


def terms(**changes: Any) -> BudgetTerms:
    return budgets({"b": {**LEAST, **changes}})["b"]


def test_what_is_left_out_has_its_default() -> None:
    assert terms() == BudgetTerms(name="b", amount=Decimal(1), unit="USD", per="hour", at_limit="alert")


def test_all_that_can_be_said() -> None:
    found = terms(job_type="documents.index", amount=Decimal("0.00000001"), unit="EUR", per="month", at_limit="pause")

    assert (found.job_type, found.queue, found.amount) == ("documents.index", None, Decimal("0.00000001"))
    assert (found.unit, found.per, found.at_limit) == ("EUR", "month", "pause")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "must be a dict from names to budgets, not list"),
        ({"b": 5}, "b: a budget is a dict, not int"),
        ({"a b": LEAST}, 'budget "a b"'),
        ({"b": {"per": "hour"}}, "b: amount must be above 0"),
        ({"b": {"amount": "1"}}, "b: per must be one of hour, day, month, not None"),
        ({"b": {**LEAST, "per": "week"}}, "not 'week'"),
        ({"b": {**LEAST, "at_limit": "explode"}}, "b: at_limit must be one of alert, pause, refuse"),
        ({"b": {**LEAST, "job_type": "t", "queue": "q"}}, "not of both"),
        ({"b": {**LEAST, "queue": "a b"}}, 'queue "a b"'),
        ({"b": {**LEAST, "job_type": "*"}}, 'job type "\\*"'),
        ({"b": {**LEAST, "queue": "jobqueue", "at_limit": "pause"}}, "b: the package's own queue cannot be paused"),
        ({"b": {**LEAST, "job_type": "jobqueue.mail", "at_limit": "pause"}}, "the package's own queue cannot"),
        ({"b": {**LEAST, "unit": ""}}, "unit must be a string"),
        ({"b": {**LEAST, "limit": 3}}, "b: unknown key limit; known are job_type"),
        ({"b": {**LEAST, "amount": 0.1}}, "as text, a Decimal or an int, not float"),
        ({"b": {**LEAST, "amount": True}}, "not bool"),
        ({"b": {**LEAST, "amount": "0"}}, "above 0"),
        ({"b": {**LEAST, "amount": "-1"}}, "above 0"),
        ({"b": {**LEAST, "amount": "NaN"}}, "above 0"),
        ({"b": {**LEAST, "amount": "Infinity"}}, "above 0"),
        ({"b": {**LEAST, "amount": "1000000000000"}}, "above 0"),
        ({"b": {**LEAST, "amount": "1 USD"}}, "is none"),
        ({"b": {**LEAST, "amount": "0.000000001"}}, "more than 8 decimals"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(value: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        build({"BUDGETS": value})


def test_a_unit_that_no_cost_may_have_is_a_fatal_contradiction() -> None:
    settings = build({"BUDGETS": {"b": {**LEAST, "unit": "EUR"}}})

    (problem,) = problems(settings)

    assert problem.fatal
    assert "BUDGETS['b'] is in 'EUR'" in problem.text
    assert problems(settings.changed(COST_UNITS=("USD", "EUR"))) == []


@pytest.mark.parametrize(
    ("of", "covered"),
    [
        ({"job_type": "t"}, {("t", "q"), ("t", "other")}),
        ({"queue": "q"}, {("t", "q"), ("u", "q")}),
        ({}, {("t", "q"), ("t", "other"), ("u", "q"), ("u", "other")}),
    ],
)
def test_a_budget_is_of_a_type_of_a_queue_or_of_all_but_the_packages_own(
    of: dict[str, str], covered: set[tuple[str, str]]
) -> None:
    kinds = {(name, queue) for name in ("t", "u", "jobqueue.notify") for queue in ("q", "other")}

    assert {kind for kind in kinds if terms(**of).covers(*kind)} == covered


@pytest.mark.parametrize(
    ("spent", "level"),
    [("-5", 0), ("0", 0), ("0.79999999", 0), ("0.8", 80), ("0.99999999", 80), ("1", 100), ("999999", 100)],
)
def test_levels_are_exact(spent: str, level: int) -> None:
    assert terms().level(Decimal(spent)) == level


def test_only_those_that_refuse_are_asked_about_at_an_enqueue() -> None:
    found = budgets({name: {**LEAST, "at_limit": name} for name in ("alert", "pause", "refuse")})

    assert [budget.name for budget in refusing(found)] == ["refuse"]
