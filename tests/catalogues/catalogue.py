"""Read, renew and compile the catalogues, without gettext's programs."""

from pathlib import Path

import polib

from .sources import PACKAGE, Message

LOCALE = PACKAGE / "locale"


def languages() -> list[str]:
    """Return the languages that have a catalogue."""
    return sorted(path.parent.parent.name for path in LOCALE.glob("*/LC_MESSAGES/django.po"))


def path_of(language: str, suffix: str = "po") -> Path:
    """Return where the catalogue of a language is."""
    return LOCALE / language / "LC_MESSAGES" / f"django.{suffix}"


def read(language: str) -> polib.POFile:
    """Return a language's catalogue."""
    # No line breaks within strings: a change of one word is a change of one line.
    return polib.pofile(str(path_of(language)), wrapwidth=0)


def key(entry: polib.POEntry) -> Message:
    """Return the message that an entry translates."""
    return Message(entry.msgctxt or None, entry.msgid, entry.msgid_plural or None)


def renew(language: str, found: dict[Message, set[str]]) -> tuple[int, int]:
    """Write the catalogue anew with the messages of the sources, and compile it; return what came and what went.

    Translations stay where the message is the same to the letter. Nothing is guessed from what looks alike.
    """
    catalogue = read(language)
    had = {key(entry): entry for entry in catalogue}
    catalogue.clear()
    for message, files in sorted(found.items(), key=lambda item: (min(item[1]), item[0].text, item[0].context or "")):
        entry = had.get(message) or new(message, catalogue)
        entry.occurrences = [(name, "") for name in sorted(files)]
        entry.comment = ""
        catalogue.append(entry)
    catalogue.save(str(path_of(language)))
    catalogue.save_as_mofile(str(path_of(language, "mo")))
    return len(found.keys() - had.keys()), len(had.keys() - found.keys())


def new(message: Message, catalogue: polib.POFile) -> polib.POEntry:
    """Return an entry that waits for its translation."""
    entry = polib.POEntry(msgctxt=message.context, msgid=message.text, msgid_plural=message.plural or "")
    if message.plural is not None:
        entry.msgstr_plural = dict.fromkeys(range(plural_forms(catalogue)), "")
    return entry


def plural_forms(catalogue: polib.POFile) -> int:
    """Return how many forms of a word the language has."""
    return int(catalogue.metadata["Plural-Forms"].split("nplurals=")[1].split(";")[0])


def untranslated(catalogue: polib.POFile) -> list[str]:
    """Return the messages of which a form is missing, or only guessed."""
    return [
        entry.msgid
        for entry in catalogue
        if entry.fuzzy or not all((entry.msgstr_plural or {0: entry.msgstr}).values())
    ]
