"""The pages as a whole: an index by kind, current pictures, links that can be right, lists that are complete."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from django.apps import apps
from django.dispatch import Signal

from jobqueue import alerting, signals
from tests.browser.pages import PAGES
from tests.docs.pages import ROOT, links, name_of, pages, prose, rows

DOCS, IMAGES = ROOT / "docs", ROOT / "docs" / "images"
README = ROOT / "README.md"
KINDS = ["Tutorials", "How to", "Reference", "Explanation"]
THEMES = ["light", "dark", "320"]
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def images() -> list[tuple[Path, str, str]]:
    """Return (page, its alternative text, target) of every picture in the pages."""
    return [(page, alt, target) for page in pages() for alt, target in IMAGE.findall(prose(page))]


def test_the_index_of_the_readme_has_each_page_once_by_its_kind() -> None:
    index = README.read_text(encoding="utf-8").partition("\n## Documentation\n")[2]
    kinds = re.findall(r"^\*\*([^*]+)\*\*", index, re.MULTILINE)
    linked = Counter(target for target in re.findall(r"\]\((docs/[^)#]+\.md)\)", index))

    assert kinds == KINDS
    assert {page: times for page, times in linked.items() if times > 1} == {}
    assert sorted(set(linked)) == sorted(f"docs/{page.name}" for page in DOCS.glob("*.md"))


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_every_picture_exists_and_says_what_it_shows() -> None:
    missing = [(name_of(page), target) for page, _, target in images() if not (page.parent / target).exists()]

    assert len(images()) >= 5
    assert missing == []
    assert [(name_of(page), target) for page, alt, target in images() if len(alt) < 10] == []


def test_there_is_a_picture_of_every_page_of_the_console_in_every_theme_and_of_no_other() -> None:
    """`make screenshots` takes them; the walk fails for a page that is in no list."""
    there = {path.name for path in IMAGES.glob("*.png")}

    assert there == {f"{name}-{theme}.png" for name in PAGES for theme in THEMES}


def test_every_other_picture_is_used() -> None:
    used = {(page.parent / target).resolve() for page, _, target in images()}
    others = [path for path in IMAGES.rglob("*") if path.is_file() and path.parent != IMAGES]

    assert [name_of(path) for path in others if path not in used] == []


def test_links_to_other_sites_have_the_form_of_one() -> None:
    found = [
        (name_of(page), target)
        for page in pages()
        for target in re.findall(r"\]\((\w+:[^)\s]*)\)", prose(page))
        if not target.startswith("mailto:")
    ]
    wrong = [
        (page, target)
        for page, target in found
        if urlsplit(target).scheme != "https" or "." not in (urlsplit(target).hostname or "")
    ]

    assert wrong == []


def test_no_link_within_the_project_leaves_it() -> None:
    outside = [
        (name_of(page), target)
        for page in pages()
        for target in links(page)
        if not (page.parent / target.partition("#")[0]).resolve().is_relative_to(ROOT)
    ]

    assert outside == []


def test_the_page_for_the_night_has_every_rule_and_each_is_explained() -> None:
    told = {name for row in rows(DOCS / "on-call.md", "rule") for name in re.findall(r"`(\w+)`", row[0])}
    headings = re.findall(r"^### ([\w, ]+)$", (DOCS / "alerts.md").read_text(encoding="utf-8"), re.MULTILINE)
    explained = {name.strip() for heading in headings for name in heading.split(",")}

    assert told == {*alerting.BUILT_IN, "database"}
    assert told <= explained


def test_the_admin_page_names_every_permission_of_the_packages_own() -> None:
    own = {
        f"jobqueue.{codename}"
        for model in apps.get_app_config("jobqueue").get_models()
        for codename, _ in model._meta.permissions
    }

    assert own - set(re.findall(r"`(jobqueue\.\w+)`", prose(DOCS / "admin.md"))) == set()


def test_the_page_of_handlers_names_every_signal() -> None:
    sent = {name for name, each in vars(signals).items() if isinstance(each, Signal)}

    assert {name for name in sent if f"`{name}`" not in (DOCS / "handlers.md").read_text(encoding="utf-8")} == set()
