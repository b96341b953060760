"""Exceptions and functions that go wrong in the ways that real handlers do, for the tests of errors."""

import threading
from collections.abc import Callable
from typing import Any, NoReturn


class NeedsTwo(Exception):
    """Cannot be rebuilt from its arguments."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


class HoldsALock(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("busy")
        self.lock = threading.Lock()
        self.pending = (number for number in range(3))


class StrRaises(Exception):
    """Has a message that cannot be made."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


class StrIsNoString(Exception):
    """Breaks the rule that __str__ returns a string."""

    def __str__(self) -> Any:
        return 42  # noqa: PLE0307


class Sly(str):
    """A string that lies about itself."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def encode(self, *args: object, **kwargs: object) -> bytes:
        raise RuntimeError("no")

    def replace(self, *args: object, **kwargs: object) -> str:
        raise RuntimeError("no")


class StrIsSly(Exception):
    """Has a message that is a string of its own kind."""

    def __str__(self) -> str:
        return Sly("sly\x00message")


class NotesRaise(Exception):
    """Fails while its traceback is made."""

    @property
    def __notes__(self) -> NoReturn:  # type: ignore[override]
        raise SystemExit("notes")


def boom(text: str) -> NoReturn:
    """Raise with that text."""
    raise ValueError(text)


def boom_elsewhere(text: str) -> NoReturn:
    """Raise with that text, from another function."""
    raise ValueError(text)


def boom_from(text: str) -> NoReturn:
    """Raise an exception that has another one as its cause."""
    try:
        raise NeedsTwo(1, "inner")
    except NeedsTwo as error:
        raise NeedsTwo(2, text) from error


def recurse(depth: int) -> int:
    """Run out of stack after that many calls, as a handler does that walks a cyclic structure."""
    if depth == 0:
        raise RecursionError("maximum recursion depth exceeded")
    return recurse(depth - 1) + 1


def deep_in_the_standard_library() -> Any:
    """Fail in a frame that is not the project's."""
    import json

    return json.loads("{")


def caught(call: Callable[..., object], *arguments: object) -> BaseException:
    """Return what the call raises, with the traceback from the call on."""
    try:
        call(*arguments)
    except BaseException as error:
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


def as_if_in(module: str, call: Callable[..., object]) -> Callable[..., object]:
    """Return a function that makes the call from a frame that belongs to another module."""
    namespace: dict[str, Any] = {"__name__": module, "call": call}
    exec("def run(*arguments):\n    return call(*arguments)", namespace)
    return namespace["run"]  # type: ignore[no-any-return]
