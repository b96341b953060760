"""A handler as declared: what is refused, what the settings fill in, and what goes to the worker."""

import asyncio
import json
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue import handlers
from jobqueue.backoff import Backoff
from jobqueue.exceptions import InvalidName
from jobqueue.handlers import Handler, Policy
from jobqueue.limits import MB, Limits
from tests.vocabulary import handlers_to_declare as functions


class Manager:
    """Stands for Job.objects: records what it is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def enqueue(self, *arguments: Any, **options: Any) -> str:
        self.calls.append((*arguments, options))
        return "job"

    async def aenqueue(self, *arguments: Any, **options: Any) -> str:
        return self.enqueue(*arguments, **options)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    manager = Manager()
    monkeypatch.setattr(handlers, "_manager", lambda: manager)
    return manager


def declare(func: Any = functions.plain, name: str = "documents.index", **options: Any) -> Handler:
    return Handler(func, name, **options)


# What can be a handler


@pytest.mark.parametrize("func", [functions.plain, functions.asynchronous, functions.anything, functions.decorated])
def test_a_function_at_module_level_is_a_handler(func: Any) -> None:
    assert declare(func).func is func


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (functions.as_lambda, "a lambda"),
        (functions.make_nested(), r"one inside another \(make_nested.<locals>.nested\)"),
        (functions.partial, r"a partial \("),
        (functions.Service().method, r"a method \("),
        (functions.Service.method, r"a method \(Service.method\)"),
        (functions.Service.static, r"a method \(Service.static\)"),
        (functions.Service.of_class, r"a method \("),
        (functions.Service, r"a class \("),
        (functions.Service(), r"a Service \("),
        (functions.hidden, "a decorator must use functools.wraps"),
        (functions.generator, r"a generator \(generator\)"),
        (functions.async_generator, r"a generator \(async_generator\)"),
        (functions.without_parameters, "without a first parameter for the context"),
        (functions.keywords_only, "without a first parameter for the context"),
        (functions.collected, "without a first parameter for the context"),
        (print, r"a builtin_function_or_method \("),
        (None, r"a NoneType \("),
    ],
)
def test_a_callable_that_a_worker_could_not_find_or_call_is_refused(func: Any, words: str) -> None:
    """C163."""
    with pytest.raises(TypeError, match=rf"^job type 'documents.index': the handler must be a function .*{words}"):
        declare(func)


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "é", None])
def test_a_name_that_cannot_be_one_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName, match=r"^job type "):
        declare(name=name)


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"queue": "a b"}, InvalidName, "queue"),
        ({"aliases": ["a b"]}, InvalidName, "alias"),
        ({"aliases": "old"}, TypeError, "aliases must be a list of names"),
        ({"priority": "high"}, ValueError, "job type 'documents.index': priority must be a whole number"),
        ({"priority": 40_000}, ValueError, "priority must be from -32768 to 32767"),
        ({"max_attempts": 0}, ValueError, "max_attempts must be from 1 to 32767"),
        ({"backoff": 5}, TypeError, "backoff must be a Backoff, not 5"),
        ({"limits": {"duration": 5}}, TypeError, "limits must be a Limits"),
        ({"on_deadline": "ignore"}, ValueError, "on_deadline is 'retry' or 'dead', not 'ignore'"),
    ],
)
def test_an_option_that_cannot_work_is_refused_at_the_declaration(
    options: dict[str, Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        declare(**options)


def test_an_async_function_is_known_as_one() -> None:
    assert declare(functions.asynchronous).is_async
    assert not declare(functions.plain).is_async


# What it answers


def test_a_handler_can_still_be_called_as_the_function() -> None:
    assert declare()("context", path="a.pdf") == {"path": "a.pdf", "context": "context"}


def test_a_handler_looks_like_its_function() -> None:
    handler = declare()

    assert (handler.__name__, handler.__doc__) == ("plain", "Read a document.")  # type: ignore[attr-defined]
    assert handler.path == "tests.vocabulary.handlers_to_declare.plain"


def test_a_handler_shows_its_name_and_its_place() -> None:
    assert repr(declare()) == "<Handler documents.index tests.vocabulary.handlers_to_declare.plain>"


def test_what_is_not_declared_comes_from_the_settings(settings: Settings) -> None:
    handler = declare()

    settings.JOBQUEUE = {
        "PRIORITY": 5,
        "MAX_ATTEMPTS": 6,
        "BACKOFF_BASE_SECONDS": 7,
        "BACKOFF_FACTOR": 3,
        "BACKOFF_CAP_SECONDS": 8,
        "DEADLINE_SECONDS": 9,
    }

    assert (handler.priority, handler.max_attempts, handler.backoff) == (5, 6, Backoff(7, 3, 8))
    assert handler.limits == Limits(duration=9)
    assert handler.queue == "default"


def test_what_is_declared_stands(settings: Settings) -> None:
    settings.JOBQUEUE = {"PRIORITY": 5, "MAX_ATTEMPTS": 6}
    backoff = Backoff(base=1)

    handler = declare(queue="documents", priority=0, max_attempts=1, backoff=backoff, limits=Limits(duration=60))

    assert (handler.queue, handler.priority, handler.max_attempts) == ("documents", 0, 1)
    assert (handler.backoff, handler.limits) == (backoff, Limits(duration=60))


def test_the_operator_s_limits_stand_above_the_declared_ones(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"documents.index": {"duration": 5}}}

    assert declare(limits=Limits(duration=60)).limits.duration == 5


# The policy


def test_a_policy_comes_back_from_json_text() -> None:
    policy = declare(
        functions.asynchronous,
        queue="documents",
        aliases=["documents.read", "index"],
        limits=Limits(60, 256 * MB, 1000, {"page_count": 2_000}),
        on_deadline="dead",
    ).policy()

    assert Policy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


def test_a_policy_has_the_settings_applied(settings: Settings) -> None:
    settings.JOBQUEUE = {"MAX_ATTEMPTS": 6, "DEADLINE_SECONDS": 9}

    policy = declare().policy()

    assert (policy.max_attempts, policy.limits.duration, policy.on_deadline) == (6, 9, "retry")


# Enqueueing


def test_enqueue_takes_the_payload_as_keywords(manager: Manager) -> None:
    assert declare().enqueue(path="a.pdf", priority=5) == "job"

    assert manager.calls == [("documents.index", {"path": "a.pdf", "priority": 5}, {})]


def test_options_are_given_apart_from_the_payload(manager: Manager) -> None:
    declare().enqueue_with({"priority": 5, "dedupe_key": "k"}, {"path": "a.pdf"})

    assert manager.calls == [("documents.index", {"path": "a.pdf"}, {"priority": 5, "dedupe_key": "k"})]


def test_a_job_may_have_options_and_no_payload(manager: Manager) -> None:
    declare().enqueue_with({"priority": 5})

    assert manager.calls == [("documents.index", None, {"priority": 5})]


def test_async_code_awaits_the_same(manager: Manager) -> None:
    async def enqueue() -> object:
        return await declare().aenqueue(path="a.pdf")

    assert asyncio.run(enqueue()) == "job"
    assert manager.calls == [("documents.index", {"path": "a.pdf"}, {})]


def test_the_manager_is_that_of_the_job_model() -> None:
    from jobqueue.models import Job

    assert handlers._manager() is Job.objects
