"""What a translation has to leave as it is: placeholders, tags, and the ellipsis of a button that asks first."""

import re
from collections import Counter
from typing import Any

import polib

PLACEHOLDER = re.compile(r"%(?:\((\w+)\))?([sd%])")
TAG = re.compile(r"</?[a-z]+>")


def placeholders(text: str) -> Counter[str]:
    """Return the placeholders of a text; the sign %% counts as one."""
    return Counter(match[0] for match in PLACEHOLDER.finditer(text))


def faults(entry: polib.POEntry) -> list[str]:
    """Return what is wrong with the translations of one entry."""
    if not entry.msgid_plural:
        return _faults(entry.msgstr, entry.msgid, [entry.msgid])
    forms = [text for _number, text in sorted(entry.msgstr_plural.items())]
    # A form for one may leave its number out where the English one does; the form for many may not.
    found = [fault for form in forms[:-1] for fault in _faults(form, entry.msgid, [entry.msgid, entry.msgid_plural])]
    return found + _faults(forms[-1], entry.msgid_plural, [entry.msgid_plural])


def _faults(translated: str, original: str, like: list[str]) -> list[str]:
    found = []
    if all(placeholders(translated) != placeholders(one) for one in like):
        found.append(f"{translated!r} has other placeholders than {original!r}")
    if sorted(TAG.findall(translated)) != sorted(TAG.findall(original)):
        found.append(f"{translated!r} has other tags than {original!r}")
    if translated.endswith("…") != original.endswith("…"):
        found.append(f"{translated!r} has lost or won the ellipsis of {original!r}")
    if translated != translated.strip():
        found.append(f"{translated!r} has space around it")
    if set(placeholders(original)) - {"%%"}:
        found += _formatting(translated, original)
    return found


def _formatting(translated: str, original: str) -> list[str]:
    """Return the fault of a text that Python cannot format: `100 % f` is a placeholder, too."""
    values: Any = {match[1]: 1 for match in PLACEHOLDER.finditer(original) if match[1]} or 1
    try:
        _ = translated % values
    except (KeyError, TypeError, ValueError) as error:
        return [f"{translated!r} cannot be formatted: {error!r}"]
    return []
