"""Declaring handlers: the decorator, names, aliases and duplicates."""

from collections.abc import Callable

import pytest

from jobqueue import job
from jobqueue.exceptions import InvalidName, UnknownJobType
from jobqueue.handlers import Handler
from jobqueue.registry import Registry
from tests.vocabulary import handlers_to_declare as functions


def declare(name: str, func: Callable[..., object] = functions.plain, **options: object) -> Handler:
    return Handler(func, name, **options)  # type: ignore[arg-type]


# The decorator


def test_the_decorator_registers_and_returns_a_handler(fresh_registry: Registry) -> None:
    handler = job("a.b", queue="documents", max_attempts=5)(functions.plain)

    assert isinstance(handler, Handler)
    assert fresh_registry.get("a.b") is handler
    assert (handler.queue, handler.max_attempts) == ("documents", 5)


def test_the_decorator_needs_a_name() -> None:
    with pytest.raises(TypeError, match=r"@job needs the name of the job type"):
        job(functions.plain)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="retries"):
        job("a.b", retries=5)(functions.plain)


def test_a_lambda_is_refused_at_the_declaration(fresh_registry: Registry) -> None:
    """C163."""
    with pytest.raises(TypeError, match="a lambda"):
        job("a.b")(lambda context: None)

    assert "a.b" not in fresh_registry


def test_a_bad_name_is_refused_at_the_declaration() -> None:
    with pytest.raises(InvalidName):
        job("a b")(functions.plain)


# Names and aliases


def test_a_job_type_is_found_by_its_name_and_by_an_alias() -> None:
    """C163: jobs enqueued under an old name are still run."""
    registry = Registry()
    handler = declare("shop.pay", aliases=["shop.charge"])

    registry.add(handler)

    assert registry.get("shop.pay") is registry.get("shop.charge") is handler


def test_aliases_are_not_among_the_names(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", aliases=["shop.charge"]))

    assert "shop.pay" in fresh_registry.names()
    assert "shop.charge" not in fresh_registry.names()
    assert "shop.charge" in fresh_registry


def test_handlers_are_listed_by_name() -> None:
    registry = Registry()
    for name in ("c.c", "a.a", "b.b"):
        registry.add(declare(name))

    assert [handler.name for handler in registry if handler.name in ("a.a", "b.b", "c.c")] == ["a.a", "b.b", "c.c"]
    assert registry.names() == sorted(registry.names())


def test_an_unknown_job_type_is_an_error_that_names_it() -> None:
    with pytest.raises(UnknownJobType, match=r"'no\.such'"):
        Registry().get("no.such")


@pytest.mark.parametrize("name", [None, 5, ("a",)])
def test_what_is_no_name_is_not_in_the_registry(name: object) -> None:
    assert name not in Registry()


# Duplicates


def test_two_functions_of_one_name_are_reported_with_both_places(fresh_registry: Registry) -> None:
    """C163."""
    fresh_registry.add(declare("shop.pay", functions.plain))
    fresh_registry.add(declare("shop.pay", functions.other))

    (problem,) = fresh_registry.problems()
    assert (problem.kind, problem.subject) == ("duplicate", "shop.pay")
    assert "handlers_to_declare.plain and by tests.vocabulary.handlers_to_declare.other" in problem.text


def test_the_first_of_two_functions_stays(fresh_registry: Registry) -> None:
    first = declare("shop.pay", functions.plain)

    fresh_registry.add(first)
    fresh_registry.add(declare("shop.pay", functions.other))

    assert fresh_registry.get("shop.pay") is first


def test_a_module_that_is_imported_again_is_no_duplicate(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", functions.plain))
    again = declare("shop.pay", functions.plain)

    fresh_registry.add(again)

    assert fresh_registry.problems() == []
    assert fresh_registry.get("shop.pay") is again


def test_one_alias_of_two_types_is_reported_once(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", aliases=["old"]))
    for _ in range(2):
        fresh_registry.add(declare("shop.ship", functions.other, aliases=["old"]))

    (problem,) = fresh_registry.problems()
    assert problem.text == "job type 'old' is an alias of shop.pay and of shop.ship"


def test_an_alias_that_is_a_name_too_is_reported(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", aliases=["shop.ship"]))
    fresh_registry.add(declare("shop.ship", functions.other))

    (problem,) = fresh_registry.problems()
    assert problem.text == "job type 'shop.ship' is declared, and is an alias of shop.pay"
    assert fresh_registry.get("shop.ship").func is functions.other
