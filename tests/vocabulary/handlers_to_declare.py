"""Functions of all kinds to be declared as handlers, at module level, where a worker would find them."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


def plain(context: object, *, path: str = "") -> dict[str, Any]:
    """Read a document."""
    return {"path": path, "context": context}


def other(context: object) -> None:
    """Do something else."""


def anything(*arguments: Any, **payload: Any) -> tuple[Any, ...]:
    """Take whatever comes."""
    return arguments


async def asynchronous(context: object) -> str:
    """Do its work on an event loop."""
    return "done"


def without_parameters() -> None:
    """Has no place for a context."""


def keywords_only(*, context: object) -> None:
    """Has no place for a positional context."""


def collected(**payload: Any) -> None:
    """Has no place for a positional context either."""


def generator(context: object) -> Iterator[int]:
    """Would never run: a call only makes the generator."""
    yield 1


async def async_generator(context: object) -> AsyncIterator[int]:
    """Would never run either."""
    yield 1


def keeps_its_name(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as a decorator should."""

    @functools.wraps(func)
    def inner(*arguments: Any, **payload: Any) -> Any:
        return func(*arguments, **payload)

    return inner


def loses_its_name(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as a decorator should not."""

    def inner(*arguments: Any, **payload: Any) -> Any:
        return func(*arguments, **payload)

    return inner


@keeps_its_name
def decorated(context: object) -> str:
    """Is wrapped, and found under its own name."""
    return "decorated"


@loses_its_name
def hidden(context: object) -> str:
    """Is wrapped by something that hides its name."""
    return "hidden"


class Service:
    """Methods and instances, which cannot be handlers."""

    def method(self, context: object) -> None:
        """Is a method."""

    @staticmethod
    def static(context: object) -> None:
        """Is a function within a class."""

    @classmethod
    def of_class(cls, context: object) -> None:
        """Is a method of the class."""

    def __call__(self, context: object) -> None:
        """Make instances callable."""


def make_nested() -> Callable[..., Any]:
    """Return a function that only exists after this call."""

    def nested(context: object) -> None:
        """Is nested."""

    return nested


partial = functools.partial(plain, path="a")
as_lambda = lambda context: None  # noqa: E731
