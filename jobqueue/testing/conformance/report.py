"""What a run found, as lines for people and as a table for documentation."""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = {"passed": "yes", "failed": "no", "skipped": "not run"}


class Report:
    """How each check ended."""

    def __init__(self, backend: str, drain: str) -> None:
        self._backend = backend
        self._drain = drain
        self._ends: dict[str, tuple[str, str]] = {}

    def note(self, name: str, outcome: str, error: Any) -> None:
        """Keep the end of a check; what fails while it is cleaned up has failed."""
        reason = ""
        if error is not None:
            lines = str(error.value).strip().splitlines() or [type(error.value).__name__]
            reason = lines[0] if outcome == "skipped" or error.errisinstance(AssertionError) else repr(error.value)
        self._ends[name] = (outcome, reason.strip()[:200])

    @property
    def has_any(self) -> bool:
        """Tell whether a check was run."""
        return bool(self._ends)

    def count(self, outcome: str) -> int:
        """Return how many ended so."""
        return sum(end == outcome for end, _ in self._ends.values())

    def by_outcome(self) -> dict[str, list[str]]:
        """Return the names of the checks by how they ended."""
        ends: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        for name, (outcome, _) in self._ends.items():
            ends[outcome].append(name)
        return ends

    def lines(self) -> list[str]:
        """Return the failures with the sentence that is broken, the reasons of what was left out, and the sums."""
        from .checks import CHECKS  # noqa: PLC0415 (its tasks want Django's settings)

        told = []
        for name, (outcome, reason) in self._ends.items():
            if outcome == "failed":
                told += [f"FAILED  {name}", f"        {CHECKS[name].sentence}", f"        {reason}"]
            elif outcome == "skipped":
                told.append(f"not run {name}: {reason}")
        return [*told, self._sums()]

    def table(self) -> str:
        """Return a table in Markdown: a row for each check."""
        from .checks import CHECKS  # noqa: PLC0415

        rows = [
            f"| `{name}` | {CHECKS[name].sentence} | {_WORDS[outcome]} | {_cell(reason)} |"
            for name, (outcome, reason) in self._ends.items()
        ]
        head = ["| check | the contract | kept | |", "|---|---|---|---|"]
        drained = f", run by `{self._drain}`" if self._drain else ""
        return "\n".join([f"`{self._backend}`{drained}: {self._sums()}.", "", *head, *rows, ""])

    def _sums(self) -> str:
        return ", ".join(f"{self.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
