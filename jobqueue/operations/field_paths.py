"""The place of a field in a payload, as errors write it and people type it: $.document.pages[0], user["first name"]."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from jobqueue.jsonwalk import LONE_SURROGATE, MAX_DEPTH

Step = str | int

_BARE: Final = re.compile(r"[^\s.\[\]\"']+")
_STEP: Final = re.compile(r"""\.?(?P<bare>[^\s.\[\]"']+)|\[(?P<place>[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")


class BadPath(ValueError):
    """A text that names no field; the message says where it ends to do so."""


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path, a str for a member and an int for an item of a list. Raises BadPath."""
    rest = text.strip()
    rest = rest[1:] if rest.startswith(("$.", "$[")) else rest
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None or (steps and match["bare"] is not None and not match[0].startswith(".")):
            raise BadPath(f'{rest[at : at + 20]!r} is no step: write name, name.name, name[0] or ["any name"]')
        steps.append(_step(match))
        at = match.end()
    if any(isinstance(step, str) and ("\x00" in step or LONE_SURROGATE.search(step)) for step in steps):
        raise BadPath("no name holds NUL or a lone surrogate")
    if not steps:
        raise BadPath("no field is named")
    if len(steps) > MAX_DEPTH:
        raise BadPath(f"more than {MAX_DEPTH} steps")
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["place"] is not None:
        return int(match["place"])
    if match["quoted"] is None:
        return match["bare"]
    try:
        name: str = json.loads(match["quoted"])
    except ValueError as error:
        raise BadPath(f"{match['quoted']} is no JSON string") from error
    return name


def write_path(path: Sequence[Step]) -> str:
    """Return the text of a path, which parse_path() reads."""
    return "$" + "".join(_written(step) for step in path)


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _BARE.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"
