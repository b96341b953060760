"""The list of checks: a name, the sentence of the contract, and what a backend must have for it to make sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from .bench import Bench


class NotSupported(Exception):
    """The backend does not claim what the check is about; the text says what."""


class Check(NamedTuple):
    """One check: its name, its sentence, the function, and what it needs: of a backend, or "worker" and "database"."""

    name: str
    sentence: str
    run: Callable[[Bench], Any]
    needs: tuple[str, ...]


CHECKS: Final[dict[str, Check]] = {}

Function = Callable[["Bench"], Any]


def check(*needs: str) -> Callable[[Function], Function]:
    """Add the function to the list, under its own name; its docstring is the sentence."""

    def add(function: Function) -> Function:
        add_check(function.__name__, function.__doc__ or "", function, needs)
        return function

    return add


def add_check(name: str, sentence: str, run: Function, needs: tuple[str, ...]) -> None:
    """Add a check; two of one name would hide each other."""
    if name in CHECKS:
        raise ValueError(f"two checks are called {name}")
    CHECKS[name] = Check(name, " ".join(sentence.split()), run, needs)
