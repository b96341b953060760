"""One guard: a piece of a statement that keeps it right under concurrency, and the tests that notice its absence.

    Guard("claim_jobs", "skip locked", "UPDATE {{SKIP LOCKED}}", "races/test_claims.py")

What stands in double braces is taken out, or replaced: `{{SKIP LOCKED}}`, `lease_epoch {{+ 1~~+ 0}}`. The rest is there
to say which place is meant: the whole text stands exactly once in its file, whatever the white space.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BRACES = re.compile(r"\{\{(.*?)(?:~~(.*?))?\}\}", re.DOTALL)


@dataclass(frozen=True)
class Guard:
    """A guard of a statement: the name of a file of jobqueue/sql, or the path of another file."""

    statement: str
    kind: str
    text: str
    tests: str  # files or node ids below tests/, parted by spaces
    behind: str = ""  # the kind of the guard that stands before this second line: both are taken out at once
    why: str = field(default="", compare=False)  # why nothing can notice that only this one is gone

    @property
    def name(self) -> str:
        """What the table and `--only` call it."""
        return f"{self.statement}: {self.kind}"

    @property
    def path(self) -> Path:
        """Its file, relative to the root."""
        return statement_path(self.statement)

    @cached_property
    def stands(self) -> str:
        """The text as it stands in the file."""
        return BRACES.sub(lambda match: match[1], self.text)

    def find(self, source: str) -> list[re.Match[str]]:
        """Return where the text stands; there should be one place."""
        return list(re.finditer(loose(self.stands), without_comments(source)))

    def removed_span(self, source: str) -> tuple[int, int]:
        """Return from where to where in its file reaches what is taken out."""
        (place,) = self.find(source)
        inner = BRACES.search(self.text)
        assert inner is not None, self.name
        before = re.match(loose(self.text[: inner.start()]), place[0])
        assert before is not None, self.name
        gone = re.match(loose(inner[1]), place[0][before.end() :])
        assert gone is not None, self.name
        start = place.start() + before.end()
        return start, start + gone.end()

    def cut(self, source: str) -> str:
        """Return the source without this guard."""
        start, end = self.removed_span(source)
        inner = BRACES.search(self.text)
        return source[:start] + ((inner and inner[2]) or "") + source[end:]


def statement_path(statement: str) -> Path:
    """Return the file of a statement, relative to the root."""
    return Path(statement if "/" in statement else f"jobqueue/sql/{statement}.sql")


def without_comments(source: str) -> str:
    """Return the source with its SQL comment lines blanked, every other character in its place."""
    return re.sub(r"(?m)^--.*$", lambda match: " " * len(match[0]), source)


def loose(text: str) -> str:
    """Return the pattern of a text in which any white space stands for any other."""
    parts = [re.escape(part) for part in re.split(r"\s+", text)]
    return r"\s+".join(parts)
