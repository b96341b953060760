"""What is hidden in JSON as the database prints it, however it is cut, and put back after an edit."""

import json
import time
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueue.admin import masking
from jobqueue.redaction import mask_json

pytestmark = pytest.mark.django_db

NAMES = st.sampled_from(["password", "a", "my secret", 'quo"te', "token\\", "Auth", "ключ"]) | st.text(
    st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), max_size=6
)
TEXTS = st.text(st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["token=abc, x", '": "', "{", "}", "},", '"', "Bearer abcdefgh", "a,"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def printed(value: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT jsonb_pretty(%s::jsonb)", [json.dumps(value)])
        text: str = cursor.fetchone()[0]
        return text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_lines_are_hidden_as_the_value_would_be(value: Any) -> None:
    text = printed(value)

    assert json.loads(masking.masked(text)) == mask_json(value)
    assert "\n".join(line.raw for line in masking.masked_lines(text)) == text


def test_a_text_that_is_cut_anywhere_tells_no_secret() -> None:
    text = printed(
        {"a": "x", "password": {"p": "hunter2", "q": ["hunter3"]}, "token": "hunter4", "z": 1, "s": "pwd=hunter5"}
    )

    for end in range(len(text)):
        shown = masking.masked(text[:end])
        assert "hunter" not in shown, shown


def shown_and(value: Any) -> tuple[Any, Any]:
    text = printed(value)
    return json.loads(masking.masked(text)), json.loads(text)


def test_hidden_values_that_are_left_alone_come_back() -> None:
    original = {
        "password": "p",
        "nested": {"token": "t", "n": 1},
        "list": [{"pin": 1, "auth": "a"}, 2],
        "text": "key token=x",
    }
    shown, stored = shown_and(original)
    edited = shown | {"nested": shown["nested"] | {"n": 2}, "more": True}

    assert masking.restored(edited, shown, stored) == original | {"nested": {"token": "t", "n": 2}, "more": True}


def test_a_hidden_value_is_replaced_or_taken_away() -> None:
    shown, stored = shown_and({"password": "p", "token": "t"})

    assert masking.restored({"password": "new"}, shown, stored) == {"password": "new"}


@pytest.mark.parametrize(
    ("edited", "path"),
    [
        ({"token": "***"}, "$.token"),
        ({"a": {"password": "***"}}, "$.a.password"),
        ({"list": [{"auth": "***", "n": 2}]}, "$.list[0].auth"),  # it may be another item's
        ({"list": [{"auth": "***", "n": 1}, 3]}, "$.list[0].auth"),
    ],
)
def test_a_mask_that_stands_elsewhere_is_refused(edited: Any, path: str) -> None:
    shown, stored = shown_and({"password": "p", "list": [{"auth": "a", "n": 1}]})

    with pytest.raises(masking.Misplaced) as refused:
        masking.restored(edited, shown, stored)

    assert str(refused.value) == path


def test_stars_of_a_payload_without_secrets_are_ordinary() -> None:
    shown, stored = shown_and({"rating": "***"})

    assert masking.restored({"rating": "****", "b": "***"}, shown, stored) == {"rating": "****", "b": "***"}


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "1" * 5_000])
def test_what_is_no_json_is_refused_with_words(text: str) -> None:
    with pytest.raises(masking.NotJson):
        masking.parse(text)


def test_a_difference_is_found_behind_the_masks_and_shown_with_them() -> None:
    before, after = printed({"a": 1, "password": "p", "z": 1}), printed({"a": 1, "password": "q", "z": 1})

    changes = masking.difference(masking.masked_lines(before), masking.masked_lines(after))

    assert [change.kind for change in changes] == ["same", "same", "same", "gone", "new", "same"]  # all is near
    assert {change.text.strip() for change in changes if change.kind != "same"} == {'"password": "***"'}


def lines(text: str) -> list[masking.Line]:
    return [masking.Line(word, word) for word in text.split()]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a b c d e f g h i", "a b c d X f g h i", "… b c d -e +X f g h …"),
        ("a b c", "a b c", "…"),
        ("a b", "a b c", "a b +c"),
        ("a b c d e f g h i j k l m", "a X c d e f g h i j k Y m", "a -b +X c d e … i j k -l +Y m"),
        ("a a a", "a a", "a a -a"),
    ],
)
def test_a_difference_leaves_out_what_is_far_from_any_change(before: str, after: str, shown: str) -> None:
    marks = {"gone": "-", "new": "+"}

    changes = masking.difference(lines(before), lines(after))

    assert " ".join(marks.get(change.kind, "") + change.text for change in changes) == shown


def test_a_difference_of_much_is_shown_whole_and_at_once() -> None:
    """What takes a matcher of lines minutes: thousands of lines of a few kinds."""
    before, after = lines("a b c " * 3_000), lines("c a " * 5_000)

    started = time.perf_counter()
    changes = masking.difference(before, after)

    assert time.perf_counter() - started < 2
    assert [change.text for change in changes if change.kind != "new"] == ["a", "b", "c"] * 3_000
