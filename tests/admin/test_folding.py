"""JSON that folds: every line is there and escaped, what opens is closed, whatever was cut off."""

import re
from html import unescape

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueue.admin.folding import DEEPEST, SHORT, folded
from jobqueue.payloads import encode_payload

from .test_escaping import EVIL, live_nodes

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8) | st.sampled_from(
    ['ends with {"', "[", "}", '": {', EVIL]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def pretty(value: object) -> str:
    """Return a value as the database prints it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT jsonb_pretty((%s::jsonb) -> 'v')", [encode_payload({"v": value}, max_bytes=2**20).text])
        text: str = cursor.fetchone()[0]
    return text


def lines_of(html: str) -> list[str]:
    """Return the lines of JSON that a page shows, as one reads them."""
    return [unescape(line) for line in re.findall(r"<code>(.*?)</code>", html, re.DOTALL)]


def is_balanced(html: str) -> bool:
    return all(html.count(f"<{tag}") == html.count(f"</{tag}>") for tag in ("ul", "li", "details", "summary", "code"))


def without_space(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_every_line_is_there_once_and_as_text(value: object) -> None:
    text = pretty(value)

    html = str(folded(text))

    assert without_space("".join(lines_of(html))) == without_space(text)
    assert is_balanced(html)
    assert list(live_nodes(html)) == []


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values, st.integers(1, 200))
def test_what_was_cut_off_is_closed(value: object, cut: int) -> None:
    text = pretty(value)
    shown = text if len(text) <= cut else f"{text[:cut]}…"

    html = str(folded(shown))

    assert is_balanced(html)
    assert list(live_nodes(html)) == []


@pytest.mark.django_db
def test_a_short_text_is_open_and_a_long_one_folds_below_its_second_level() -> None:
    long = {"pages": [{"number": number} for number in range(SHORT)]}

    assert str(folded(pretty({"a": {"b": {"c": 1}}}))).count("<details open>") == 3
    html = str(folded(pretty(long)))
    assert html.count("<details open>") == 2
    assert html.count("<details>") == SHORT
    assert f"{SHORT} members" in html


@pytest.mark.django_db
def test_deep_data_stops_nesting_and_loses_nothing() -> None:
    value: object = 1
    for _ in range(90):
        value = [value]

    html = str(folded(pretty(value)))

    assert html.count("<details") == DEEPEST
    assert is_balanced(html)
    assert without_space("".join(lines_of(html))) == "[" * 90 + "1" + "]" * 90


def test_an_empty_object_takes_one_line() -> None:
    assert lines_of(str(folded('{\n    "a": {\n    },\n    "b": [\n    ]\n}'))) == ["{", '"a": {},', '"b": []', "}"]


def test_nothing_is_a_dash() -> None:
    assert folded(None) == "-"
