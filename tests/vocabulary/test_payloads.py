"""What a payload and a result may hold: every refusal names the path and the rule, and comes before any SQL."""

import json
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe

from jobqueue.exceptions import PayloadError
from jobqueue.payloads import Encoded, encode_payload

MIB = 1_048_576


class Point(NamedTuple):
    """A tuple with names is an array all the same."""

    x: int
    y: int


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Word(StrEnum):
    YES = "yes"


class Lying(list[Any]):
    """Looks empty every other time, as a list may that another thread works on."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        self.looks += 1
        return iter(()) if self.looks % 2 else super().__iter__()


class Ratio(float):
    """Stands for numpy.float64, which is a float too."""


def encode(value: Any, **options: Any) -> Encoded:
    return encode_payload(value, **{"max_bytes": MIB, **options})


def refusal(value: Any, **options: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        encode(value, **options)
    return caught.value


def nested(depth: int, innermost: Any = 1) -> dict[str, Any]:
    value = innermost
    for _ in range(depth):
        value = {"a": value}
    return value  # type: ignore[no-any-return]


@pytest.fixture
def unlimited_digits() -> Iterator[None]:
    """Let Python print whole numbers of any length, as some projects do."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


# What is accepted


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1},
        {"a": "text", "b": 1, "c": True, "d": None},
        {"a": 1.5, "b": [1, 2, {"c": []}], "d": {}},
        {"é": "Grüße, 世界 🎉"},
        {"quote": '"', "backslash": "\\", "newline": "\n\t\r\b\f", "control": "\x01\x1f\x7f"},
        {"": ""},
        {"big": 2**70, "negative": -(2**70)},
    ],
)
def test_a_json_object_comes_back_as_it_was(value: dict[str, Any]) -> None:
    assert json.loads(encode(value).text) == value


def test_the_size_is_that_of_the_text_in_utf8() -> None:
    text, size = encode({"a": "é"})

    assert (text, size) == ('{"a": "é"}', 11)


def test_tuples_become_arrays() -> None:
    assert encode({"a": (1, (2,)), "p": Point(3, 4)}).text == '{"a": [1, [2]], "p": [3, 4]}'


@pytest.mark.parametrize("mapping", [OrderedDict(a=1), defaultdict(int, a=1)], ids=["OrderedDict", "defaultdict"])
def test_other_dicts_are_objects(mapping: dict[str, int]) -> None:
    assert encode(mapping).text == '{"a": 1}'
    assert encode({"in": mapping}).text == '{"in": {"a": 1}}'


def test_members_of_text_and_number_enums_are_their_plain_values() -> None:
    assert encode({"a": Size.LARGE, "b": Word.YES, Word.YES: 1}).text == '{"a": 3, "b": "yes", "yes": 1}'


def test_other_strings_and_floats_are_their_plain_values() -> None:
    assert encode({"a": mark_safe("<b>"), "b": Ratio(0.5)}).text == '{"a": "<b>", "b": 0.5}'


def test_a_backslash_before_what_looks_like_an_escaped_nul_is_no_nul() -> None:
    value = {"a": "\\u0000"}

    assert json.loads(encode(value).text) == value


@pytest.mark.parametrize("word", ["re-enter", "e+5", "-0.0", "1e-7"])
def test_what_looks_like_a_number_in_a_string_adds_nothing(word: str) -> None:
    text, size = encode({"word": word, "number": 1.5})

    assert size == len(text)


# Sizes: numbers as jsonb prints them


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (1e16, "10000000000000000"),
        (1.5e16, "15000000000000000"),
        (1e-07, "0.0000001"),
        (-1.5e-07, "-0.00000015"),
        (-0.0, "0.0"),
        (1.0, "1.0"),
        (123456789012345.6, "123456789012345.6"),
        (1e300, "1" + "0" * 300),
        (5e-324, "0." + "0" * 323 + "5"),
    ],
)
def test_a_float_counts_as_many_bytes_as_jsonb_prints(number: float, printed: str) -> None:
    assert encode({"n": number}).size == len(f'{{"n": {printed}}}')
    assert encode({"a": [number]}).size == len(f'{{"a": [{printed}]}}')


def test_a_float_that_jsonb_prints_long_can_break_the_limit() -> None:
    assert refusal({"n": 1e300}, max_bytes=100).rule == "308 bytes of JSON are over the limit of 100"


# The limit


def test_a_payload_of_exactly_the_limit_is_accepted() -> None:
    """C99."""
    assert encode({"a": "x" * (MIB - 9)}).size == MIB


def test_one_byte_more_is_refused_with_size_limit_and_handler() -> None:
    """C99."""
    error = refusal({"a": "x" * (MIB - 8)}, job_type="documents.index")

    assert error.path == "$"
    assert str(error) == ("payload of documents.index: $: 1048577 bytes of JSON are over the limit of 1048576")


def test_the_limit_counts_bytes_not_characters() -> None:
    """C99."""
    assert refusal({"a": "é" * 600_000}).rule == "1200009 bytes of JSON are over the limit of 1048576"


def test_ten_megabytes_are_refused() -> None:
    """C22."""
    assert "over the limit of 1048576" in refusal({"a": "x" * 10_000_000}).rule


def test_a_long_list_is_told_its_exact_size() -> None:
    assert refusal({"a": [1] * 400_000}).rule == "1200007 bytes of JSON are over the limit of 1048576"


def test_far_too_many_values_are_refused_before_they_are_encoded() -> None:
    assert "values cannot fit into the limit of 100 bytes" in refusal({"a": [1] * 20_000}, max_bytes=100).rule


def test_a_list_that_doubles_with_every_level_does_not_fill_the_memory() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]

    assert "values cannot fit" in refusal({"a": value}).rule


def test_a_doubling_value_with_a_fault_inside_is_refused_as_fast() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]

    assert "values cannot fit" in refusal({"a": OrderedDict(b=value), "c": object()}).rule


# What is refused


@pytest.mark.parametrize("value", [None, [], [1], "text", 5, True, (("a", 1),), {"a", "b"}, object()])
def test_a_payload_that_is_no_object_is_refused(value: Any) -> None:
    error = refusal(value)

    assert error.path == "$"
    assert error.rule.startswith("a payload is a JSON object (a dict), not ")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), Ratio("nan")])
@pytest.mark.parametrize(
    ("shape", "path"),
    [
        (lambda number: {"a": number}, "$.a"),
        (lambda number: {"a": [0, {"b": number}]}, "$.a[1].b"),
        (lambda number: {"a": (1.5, number)}, "$.a[1]"),
    ],
)
def test_what_is_not_a_number_is_refused_with_its_path(number: float, shape: Any, path: str) -> None:
    """C43."""
    error = refusal(shape(number))

    assert (error.path, error.rule) == (path, f"{float.__repr__(number)} is not a JSON number")


@pytest.mark.parametrize("value", [{"a": ["x\x00"]}, {"a": [{"b": 1}, "\x00"], "c": 1.5}])
def test_nul_is_refused_with_its_path(value: dict[str, Any]) -> None:
    """C22."""
    error = refusal(value)

    assert error.path in ("$.a[0]", "$.a[1]")
    assert "contains NUL" in error.rule


def test_nul_in_a_key_is_refused_and_shown_escaped() -> None:
    """C22."""
    error = refusal({"a": {"b\x00": 1}})

    assert error.path == "$.a"
    assert error.rule == r'the key "b\u0000" contains NUL (\x00), which PostgreSQL cannot store'


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00"])
def test_a_lone_surrogate_is_refused_with_its_path(text: str) -> None:
    """C22."""
    error = refusal({"a": {"b": [text]}})

    assert error.path == "$.a.b[0]"
    assert "contains a lone surrogate" in error.rule


def test_a_lone_surrogate_in_a_key_is_refused_in_printable_text() -> None:
    error = refusal({"\ud800": 1})

    assert str(error).encode()
    assert "lone surrogate" in error.rule


@pytest.mark.parametrize("key", [1, 1.5, True, None, b"a", (1, 2), float("nan"), Colour.RED])
def test_a_key_that_is_no_string_is_refused(key: Any) -> None:
    """C43: Python's encoder turns some of them into strings, so that two keys may become one."""
    error = refusal({"a": {key: 1}})

    assert error.path == "$.a"
    assert error.rule.endswith("JSON keys are strings")


def test_a_number_as_a_key_of_the_payload_itself_is_refused() -> None:
    assert refusal({1: "x"}).rule == "the key 1 is int, JSON keys are strings"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime.datetime is not a JSON type: pass value.isoformat()"),
        (date(2026, 1, 1), "datetime.date is not a JSON type: pass value.isoformat()"),
        (time(12), "datetime.time is not a JSON type: pass value.isoformat()"),
        (timedelta(1), "datetime.timedelta is not a JSON type: pass value.total_seconds()"),
        (Decimal(1), "decimal.Decimal is not a JSON type: pass str(value)"),
        (UUID(int=1), "uuid.UUID is not a JSON type: pass str(value)"),
        ({1, 2}, "set is not a JSON type: pass a sorted list"),
        (frozenset(), "frozenset is not a JSON type: pass a sorted list"),
        (b"x", "bytes is not a JSON type: pass text, or base64 of it"),
        (PurePosixPath("a"), "pathlib.PurePosixPath is not a JSON type: pass str(value)"),
        (User(pk=1), "django.contrib.auth.models.User is not a JSON type: pass its pk"),
        (lazystr("x"), "a lazy string, pass str(value)"),
        (Colour.RED, "Colour is not a JSON type: pass value.value"),
        (1 + 2j, "complex is not a JSON type"),
        (range(3), "range is not a JSON type"),
        (object(), "object is not a JSON type"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_type_that_json_lacks_is_refused_with_what_to_pass(value: Any, rule: str) -> None:
    """C146."""
    error = refusal({"a": [value]})

    assert error.path == "$.a[0]"
    assert rule in error.rule


def test_a_hundred_levels_are_accepted() -> None:
    assert encode(nested(100)).text.count("{") == 100


@pytest.mark.parametrize("innermost", [1, 1e300, "\x00", object()])
def test_more_levels_are_refused(innermost: Any) -> None:
    error = refusal(nested(101, innermost))

    assert error.rule == "nested deeper than 100 levels, or within itself"
    assert error.path == "$" + ".a" * 100


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_any_depth_is_refused_without_a_recursion_error(depth: int) -> None:
    assert "nested deeper" in refusal(nested(depth)).rule


def test_a_list_within_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert "within itself" in refusal({"a": loop}).rule


def test_a_whole_number_that_python_would_not_read_again_is_refused() -> None:
    error = refusal({"a": {"n": 10**5000}})

    assert (error.path, error.rule) == ("$.a.n", "a whole number of more than 4300 digits")


@pytest.mark.usefixtures("unlimited_digits")
def test_a_whole_number_that_numeric_cannot_hold_is_refused() -> None:
    assert refusal({"n": 10**131_072}).rule == "a whole number of more than 131072 digits"


@pytest.mark.usefixtures("unlimited_digits")
def test_a_whole_number_that_numeric_can_just_hold_is_accepted() -> None:
    assert encode({"n": 10**131_071}).size == len('{"n": }') + 131_072


def test_a_fault_that_only_the_encoder_meets_is_refused_all_the_same() -> None:
    assert refusal({"a": Lying([object()])}).rule == "object is not a JSON type"


def test_the_first_fault_in_document_order_is_named() -> None:
    assert refusal({"a": {"b": [object()]}, "c": float("nan"), "d": "\x00"}).path == "$.a.b[0]"


def test_a_path_shows_unusual_keys_in_quotes_and_long_ones_short() -> None:
    error = refusal({"a b": {"x" * 200: {"é": {'q"': object()}}}})

    assert error.path == f'$["a b"]["{"x" * 37}..."]["é"]["q\\""]'


def test_the_index_in_a_bulk_call_is_named() -> None:
    """C22."""
    error = refusal({"a": object()}, index=41)

    assert error.index == 41
    assert str(error).startswith("payload, item 41: $.a: ")


def test_a_refusal_hides_how_it_was_found() -> None:
    error = refusal({"a": object()})

    assert error.__suppress_context__
