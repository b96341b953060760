"""Show JSON so that its parts can be folded away: nested <details>, no script.

It is made of the lines of jsonb_pretty(), masked and perhaps cut off with an ellipsis, so no number passes through
Python, and what ends in the middle is closed where it ends. A line that opens a part is the only one that ends with a
bracket: a text ends with its quote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy, ngettext

from .detail import Preview
from .wording import EMPTY, size

#: A text of so few lines is shown open as a whole.
SHORT: Final = 40
#: In a longer one so many levels are open.
OPEN_LEVELS: Final = 2
#: Deeper parts are not folded by themselves: browsers stop nesting elements at 512, and nobody reads these.
DEEPEST: Final = 24
_CLOSING: Final = {"{": "}", "[": "]"}
PART_LABELS: Final = {
    "payload": gettext_lazy("Payload"),
    "result": gettext_lazy("Result"),
    "progress": gettext_lazy("Progress"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the JSON columns, folded."""

    name: str
    label: Any
    tree: SafeString | str
    url: str
    cut: bool
    size: str


class _Level:
    """A part that is open: where its summary goes to once its members are counted."""

    __slots__ = ("count", "head", "place")

    def __init__(self, place: int, head: str) -> None:
        self.place, self.head, self.count = place, head, 0


def folded(text: str | None) -> SafeString | str:
    """Return a text of jsonb_pretty() as a list whose objects and arrays fold; escaped; `-` for none."""
    if not text:
        return EMPTY
    lines = _joined(text.split("\n"))
    short, html, levels = len(lines) <= SHORT, ['<ul class="jobqueue-json">'], list[_Level]()
    for line in lines:
        bare = line.strip()
        if levels and len(levels) <= DEEPEST and bare.rstrip(",") in ("}", "]") and _closes(line, len(levels)):
            _close(html, levels, bare, short=short)
            continue
        if levels:
            levels[-1].count += 1
        if bare[-1:] in _CLOSING and len(levels) < DEEPEST:
            levels.append(_Level(len(html), bare))
            html += ["", "<ul>"]
        else:
            html.append(f"<li><code>{escape(bare if len(levels) < DEEPEST else line)}</code></li>")
    while levels:  # cut off
        _close(html, levels, "…", short=short)
    return mark_safe("".join([*html, "</ul>"]))  # noqa: S308 - every line is escaped above  # nosec B308 B703


def _close(html: list[str], levels: list[_Level], end: str, *, short: bool) -> None:
    level = levels.pop()
    is_open = " open" if short or len(levels) < OPEN_LEVELS else ""
    members = ngettext("%d member", "%d members", level.count) % level.count
    html[level.place] = (
        f"<li><details{is_open}><summary><code>{escape(level.head)}</code>"
        f' <span class="jobqueue-quiet">{escape(members)}</span></summary>'
    )
    html.append(f"</ul><code>{escape(end)}</code></details></li>")


def _closes(line: str, depth: int) -> bool:
    """Tell whether a closing bracket is that of the innermost part: below DEEPEST others are lines like any."""
    return _indent(line) == 4 * (depth - 1)


def _joined(lines: list[str]) -> list[str]:
    """Return the lines with each empty object and array, which take two, on one."""
    found: list[str] = []
    for line in lines:
        before = found[-1] if found else ""
        bare = line.strip()
        if bare.rstrip(",") == _CLOSING.get(before[-1:]) and _indent(before) == _indent(line):
            found[-1] = before + bare
            continue
        found.append(line)
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def parts_of(job_id: int, preview: Preview) -> list[Part]:
    """Return the JSON columns that hold something."""
    return [
        Part(
            name=name,
            label=PART_LABELS[name],
            tree=folded(block.text),
            url=reverse("admin:jobqueue_job_json", args=[job_id, name]),
            cut=block.cut,
            size=size(block.bytes),
        )
        for name, block in preview.parts.items()
        if block.text is not None
    ]
