"""Each catalogue has all strings of the sources, translated, and its compiled form is of the same words."""

import shutil
from pathlib import Path

import django
import polib
import pytest
from django.core.management import call_command

from .catalogue import key, languages, path_of, plural_forms, read, untranslated
from .placeholders import faults
from .sources import PACKAGE, in_python, in_template, messages

AGAIN = "run `make messages`, and translate what is new in jobqueue/locale/{}/LC_MESSAGES/django.po"
each_language = pytest.mark.parametrize("language", languages())


def test_german_and_korean_are_there() -> None:
    assert {"de", "ko"} <= set(languages())


@each_language
def test_catalogue_has_the_strings_of_the_sources(language: str) -> None:
    catalogue = read(language)

    assert {key(entry) for entry in catalogue if not entry.obsolete} == set(messages()), AGAIN.format(language)
    assert catalogue.obsolete_entries() == []


@each_language
def test_everything_is_translated(language: str) -> None:
    assert untranslated(read(language)) == []


@each_language
def test_translations_keep_what_is_filled_in(language: str) -> None:
    assert [fault for entry in read(language) for fault in faults(entry)] == []


@each_language
def test_plural_forms_are_those_of_the_language(language: str) -> None:
    folder = Path(django.__file__).parent / "conf" / "locale" / language / "LC_MESSAGES"
    catalogue = read(language)
    forms = range(plural_forms(catalogue))

    # With another rule than its own Django would keep the catalogue apart.
    assert catalogue.metadata["Plural-Forms"] == polib.mofile(str(folder / "django.mo")).metadata["Plural-Forms"]
    assert [entry.msgid for entry in catalogue if entry.msgid_plural and [*entry.msgstr_plural] != [*forms]] == []


@each_language
@pytest.mark.parametrize("app", ["conf", "contrib/admin"])
def test_words_of_django_stay_its_own(language: str, app: str) -> None:
    """A catalogue speaks for the whole project: a word of the admin must not change because this app is installed."""
    theirs = polib.mofile(str(Path(django.__file__).parent / app / "locale" / language / "LC_MESSAGES" / "django.mo"))
    known = _words(theirs)

    differing = {
        name: (words, known[name]) for name, words in _words(read(language)).items() if known.get(name, words) != words
    }
    assert differing == {}, "give the string a context"


@each_language
def test_compiled_catalogue_has_the_same_words(language: str) -> None:
    compiled = polib.mofile(str(path_of(language, "mo")))

    assert _words(compiled) == _words(read(language)), AGAIN.format(language)


def _words(catalogue: polib.POFile | polib.MOFile) -> dict[tuple[str | None, str], object]:
    return {
        (entry.msgctxt or None, entry.msgid): (entry.msgid_plural, entry.msgstr, entry.msgstr_plural)
        for entry in catalogue
        if entry.msgstr or entry.msgstr_plural
    }


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="no xgettext: apt-get install gettext")
def test_strings_are_those_that_gettext_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "jobqueue"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "locale", "static", "*.sql"))
    (copy / "locale").mkdir()
    monkeypatch.chdir(copy)

    call_command("makemessages", locale=["de"], verbosity=0)

    found = polib.pofile(str(copy / "locale" / "de" / "LC_MESSAGES" / "django.po"))
    assert {key(entry) for entry in found} == set(messages())


def test_all_ways_to_mark_a_string_are_known() -> None:
    code = """
_("a" " and b"); gettext_lazy("c"); ngettext("%d d", "%d ds", n); pgettext("of e", "e"); npgettext("of f", "f", "fs", n)
translation.gettext("g"); other("no");
"""
    template = """{% load i18n %}{% translate "h" %}{% translate 'i %' context "of i" %}{% blocktranslate trimmed %}
j {{ k }}{% endblocktranslate %}{% blocktranslate count n=n %}{{ n }} l{% plural %}{{ n }} ls{% endblocktranslate %}
{{ _("m") }}{% comment %}{% translate "no" %}{% endcomment %}no"""

    assert [*in_python(code)] == [
        (None, "a and b", None),
        (None, "c", None),
        (None, "%d d", "%d ds"),
        ("of e", "e", None),
        ("of f", "f", "fs"),
        (None, "g", None),
    ]
    assert [*in_template(template)] == [
        (None, "h", None),
        ("of i", "i %%", None),
        (None, "j %(k)s", None),
        (None, "%(n)s l", "%(n)s ls"),
        (None, "m", None),
    ]


def test_string_that_is_put_together_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        list(in_python('_(f"a {b}")'))


@pytest.mark.parametrize(
    ("original", "translated"),
    [
        ("%(a)s of %(b)s", "%(a)s von"),
        ("%d jobs", "%s Jobs"),
        ("a <strong>b</strong>", "a b"),
        ("Mute…", "Stumm"),
        ("a", " b"),
        ("%(a)s %% done", "%(a)s % fertig"),
    ],
)
def test_fault_of_a_translation_is_seen(original: str, translated: str) -> None:
    assert faults(polib.POEntry(msgid=original, msgstr=translated)) != []


def test_form_for_one_may_leave_its_number_out() -> None:
    one = polib.POEntry(msgid="The only slot.", msgid_plural="All %(n)d slots.")

    one.msgstr_plural = {0: "Der einzige Slot.", 1: "Alle %(n)d Slots."}
    assert faults(one) == []
    one.msgstr_plural = {0: "%(n)d 슬롯"}
    assert faults(one) == []
    one.msgstr_plural = {0: "Der einzige Slot.", 1: "Alle Slots."}
    assert faults(one) != []
