"""Find a phrase in a text with a few wrong letters allowed (Sellers' algorithm).

Every character of the text is compared with every character of the phrase: fine for a page, minutes for a large
log in plain Python. The job that uses it therefore has a deadline.
"""

from collections.abc import Callable
from dataclasses import dataclass

REPORT_EVERY = 50_000


@dataclass(frozen=True, slots=True)
class Match:
    """The best place of a phrase: wrong letters in it, and the offset behind its last character."""

    errors: int
    end: int


def best_match(text: str, phrase: str, report: Callable[[int, str], None]) -> Match:
    """Return where the phrase fits best; the first such place when several fit equally well.

    Raises ValueError for an empty phrase.
    """
    if not phrase:
        raise ValueError("the phrase to search for is empty")
    best = Match(len(phrase), 0)
    column = list(range(len(phrase) + 1))
    for place, letter in enumerate(text, start=1):
        column = _next_column(column, phrase, letter)
        if column[-1] < best.errors:
            best = Match(column[-1], place)
        if place % REPORT_EVERY == 0:
            report(100 * place // len(text), f"{place} of {len(text)} characters")
    return best


def _next_column(column: list[int], phrase: str, letter: str) -> list[int]:
    """Return the costs of every beginning of the phrase when one more letter of the text is taken in."""
    following = [0]  # a match may start anywhere
    for row, wanted in enumerate(phrase, start=1):
        changed = column[row - 1] + (wanted != letter)
        following.append(min(changed, column[row] + 1, following[row - 1] + 1))
    return following
