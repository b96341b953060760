"""Read the Markdown pages of the project: their tables, links, headings and examples."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """One fenced block."""

    page: Path
    language: str
    text: str


def pages() -> list[Path]:
    """Return README, CHANGELOG, SECURITY and everything in docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def name_of(page: Path) -> str:
    """Return the page's path within the project."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str = "python") -> list[Block]:
    """Return the fenced blocks of one language, in order."""
    found = [Block(page, *match) for match in FENCE.findall(page.read_text())]
    return [block for block in found if block.language == language]


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Return the targets of all links within the project."""
    return [target for target in LINK.findall(prose(page)) if "://" not in target and not target.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page make."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: Path, first: str) -> Iterator[list[str]]:
    """Yield the cells of the table whose heading begins with that word, row by row."""
    inside = False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == first:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            yield cells
