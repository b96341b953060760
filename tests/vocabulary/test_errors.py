"""The text of an error can always be stored, whatever the exception does to prevent it."""

from collections.abc import Callable
from types import FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.errors import ErrorText, class_name, clean_text, cut_text, describe, fingerprint
from tests.vocabulary.failing import (
    HoldsALock,
    NeedsTwo,
    NotesRaise,
    StrIsNoString,
    StrIsSly,
    StrRaises,
    as_if_in,
    boom,
    boom_elsewhere,
    boom_from,
    caught,
    deep_in_the_standard_library,
    recurse,
)

LIMIT = 16 * 1024


def described(call: Callable[..., object], *arguments: object, max_bytes: int = LIMIT) -> ErrorText:
    return describe(caught(call, *arguments), max_bytes=max_bytes)


def assert_storable(error: ErrorText, max_bytes: int = LIMIT) -> None:
    for text in (error.error_class, error.text, error.traceback):
        assert "\x00" not in text
        assert len(text.encode()) <= max_bytes


# What is recorded


def test_class_message_and_traceback_are_recorded() -> None:
    error = described(boom, "no such file")

    assert error.error_class == "ValueError"
    assert error.text == "no such file"
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.endswith("ValueError: no such file\n")


def test_a_class_is_named_with_its_module() -> None:
    assert class_name(NeedsTwo(1, "x")) == "tests.vocabulary.failing.NeedsTwo"


def test_an_exception_that_cannot_be_rebuilt_is_recorded_with_its_cause() -> None:
    """C17."""
    error = described(boom_from, "outer")

    assert error.text == "2: outer"
    assert "tests.vocabulary.failing.NeedsTwo: 1: inner" in error.traceback
    assert "direct cause" in error.traceback


def test_an_exception_that_cannot_be_pickled_is_recorded() -> None:
    """C17."""
    error = describe(HoldsALock(), max_bytes=LIMIT)

    assert (error.error_class, error.text) == ("tests.vocabulary.failing.HoldsALock", "busy")


def test_an_exception_without_a_traceback_is_recorded() -> None:
    assert describe(ValueError("x"), max_bytes=LIMIT).traceback == "ValueError: x\n"


def test_a_group_of_exceptions_is_recorded_with_its_members() -> None:
    error = describe(ExceptionGroup("two", [ValueError("a"), KeyError("b")]), max_bytes=LIMIT)

    assert "ValueError: a" in error.traceback
    assert "KeyError: 'b'" in error.traceback


# Text that could not be stored


def test_nul_is_shown_escaped() -> None:
    """C15."""
    error = described(boom, "a\x00b")

    assert error.text == r"a\x00b"
    assert_storable(error)


def test_nul_in_the_names_of_a_class_is_shown_escaped() -> None:
    """C15."""
    kind = type("Bad", (Exception,), {"__module__": "m\x00", "__qualname__": "Bad\x00"})

    error = describe(kind("x"), max_bytes=LIMIT)

    assert error.error_class == r"m\x00.Bad\x00"
    assert_storable(error)


def test_nul_in_the_name_of_a_frame_is_shown_escaped() -> None:
    """C15."""
    frame = FunctionType(boom.__code__.replace(co_name="b\x00"), boom.__globals__)

    error = described(frame, "x")

    assert r"in b\x00" in error.traceback
    assert_storable(error)


def test_a_lone_surrogate_is_shown_escaped() -> None:
    error = described(boom, "a\ud800b")

    assert error.text == r"a\ud800b"
    assert_storable(error)


@given(st.text(st.characters()))
def test_any_text_is_made_storable(text: str) -> None:
    clean = clean_text(text)

    assert "\x00" not in clean
    assert clean.encode().decode() == clean


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    assert clean_text(text) == text


# Exceptions that fight back


@pytest.mark.parametrize("inner", [ValueError("inner"), RecursionError(), SystemExit(3), KeyboardInterrupt()])
def test_a_message_that_cannot_be_made_is_replaced(inner: BaseException) -> None:
    error = describe(StrRaises(inner), max_bytes=LIMIT)

    assert error.error_class == "tests.vocabulary.failing.StrRaises"
    assert error.text == f"<the message cannot be shown: __str__ raised {type(inner).__name__}>"
    assert error.traceback


def test_a_message_that_is_no_string_is_replaced() -> None:
    assert describe(StrIsNoString(), max_bytes=LIMIT).text.endswith("__str__ raised TypeError>")


def test_a_string_with_methods_of_its_own_is_read_as_a_string() -> None:
    error = describe(StrIsSly(), max_bytes=LIMIT)

    assert error.text == r"sly\x00message"
    assert_storable(error)


def test_an_exception_whose_traceback_cannot_be_made_keeps_its_message() -> None:
    error = describe(NotesRaise("all the same"), max_bytes=LIMIT)

    assert error.text == "all the same"
    assert error.traceback == "tests.vocabulary.failing.NotesRaise: all the same"


def test_a_class_with_a_module_that_is_no_string_is_recorded() -> None:
    kind = type("Odd", (Exception,), {"__module__": None})

    assert describe(kind("x"), max_bytes=LIMIT).text == "x"


# Sizes


def test_fifty_megabytes_are_cut() -> None:
    """C154."""
    error = described(boom, "x" * 50_000_000)

    assert_storable(error)
    assert "bytes cut" in error.text
    assert "bytes cut" in error.traceback


def test_a_cut_traceback_keeps_its_head_and_its_tail() -> None:
    """C154."""
    error = described(boom, "x" * 50_000_000)

    assert error.traceback.startswith("Traceback (most recent call last):")
    assert "in boom" in error.traceback
    assert error.traceback.endswith("xxx\n")


def test_a_deep_recursion_is_recorded_within_the_limit() -> None:
    """C154."""
    error = described(recurse, 900)

    assert error.error_class == "RecursionError"
    assert "Previous line repeated" in error.traceback
    assert_storable(error)


def test_text_and_traceback_together_stay_below_64_kb() -> None:
    """C154."""
    error = described(boom, "é\x00" * 5_000_000)

    assert sum(len(part.encode()) for part in error) < 64_000


def test_the_name_of_a_class_is_cut_too() -> None:
    kind = type("X" * 5000, (Exception,), {})

    assert len(class_name(kind()).encode()) <= 255


def test_what_is_cut_out_is_counted() -> None:
    text = cut_text("H" * 700 + "T" * 300, 100)

    head, tail = text.count("H"), text.count("T")
    assert text == f"{'H' * head}… [{1000 - head - tail} bytes cut] …{'T' * tail}"
    assert head > tail > 0


def test_text_of_exactly_the_limit_is_not_cut() -> None:
    assert cut_text("é" * 50, 100) == "é" * 50
    assert "bytes cut" in cut_text("é" * 51, 100)


def test_a_limit_too_small_for_the_mark_keeps_the_head() -> None:
    assert cut_text("abcdef" * 20, 5) == "abcde"
    assert cut_text("é" * 20, 5) == "éé"


@given(text=st.text(st.characters(), min_size=20) | st.text("é🎉\0", min_size=20), max_bytes=st.integers(0, 120))
def test_any_cut_is_valid_utf8_within_the_limit(text: str, max_bytes: int) -> None:
    """C154."""
    cut = cut_text(text, max_bytes)

    assert len(cut.encode()) <= max_bytes
    assert "\x00" not in cut


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=60))
def test_head_and_tail_of_a_cut_are_those_of_the_text(text: str) -> None:
    cut = cut_text(text, 50)

    if cut != text:
        head, _, rest = cut.partition("… [")
        assert text.startswith(head)
        assert text.endswith(rest.partition("] …")[2])


# Which frames


@pytest.mark.parametrize("module", ["jobqueue.children.executor", "asgiref.sync", "asyncio.runners"])
def test_frames_of_the_executor_are_left_out(module: str) -> None:
    error = described(as_if_in(module, boom), "x")

    assert "in run" not in error.traceback
    assert "in boom" in error.traceback


def test_frames_of_a_module_with_a_similar_name_stay() -> None:
    error = described(as_if_in("jobqueue.childrens_toys", boom), "x")

    assert "in run" in error.traceback


def test_a_frame_of_the_executor_below_the_handler_stays() -> None:
    call = as_if_in("shop.jobs", as_if_in("asyncio.runners", boom))

    assert described(call, "x").traceback.count("in run") == 2


def test_an_error_of_the_executor_itself_keeps_all_its_frames() -> None:
    error = describe(caught(as_if_in("jobqueue.children.executor", int), "x"), max_bytes=LIMIT)

    assert "in run" in error.traceback


# Fingerprints


def test_a_fingerprint_is_16_hex_digits() -> None:
    assert len(fingerprint("ValueError", "x")) == 16
    int(fingerprint("ValueError", "x"), 16)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 not found", "order 4711 not found"),
        ("took 1.5 s", "took 22.75 s"),
        ("no file '/tmp/a.pdf'", "no file '/srv/data/b c.pdf'"),
        ("cannot open /tmp/a.pdf", "cannot open /srv/data/b.pdf"),
        ("cannot open C:\\a.pdf", "cannot open D:\\x\\b.pdf"),
        ("GET https://a.example/1?x=2 failed", "GET http://b.example/zz failed"),
        ("job 0f8fad5b-d9cb-469f-a165-70867728950e", "job 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("at 0x7f3a", "at 0xDEADBEEF"),
        ("sha deadbeef0123456789", "sha 0123456789abcdefab"),
        ('key "anna" twice', 'key "bo" twice'),
        ("no mailbox ann@example.org", "no mailbox b.c@mail.example.com"),
        ("a  b", "a b"),
        ("<Lock at 0x7f1 owner=12>", "<Lock at 0x99a owner=7>"),
    ],
)
def test_one_cause_has_one_fingerprint(one: str, other: str) -> None:
    assert fingerprint("E", one) == fingerprint("E", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("order not found", "order not paid"), ("can't open it", "can't close it"), ("disk full", "disc full")],
)
def test_different_causes_have_different_fingerprints(one: str, other: str) -> None:
    assert fingerprint("E", one) != fingerprint("E", other)


def test_the_class_counts() -> None:
    assert fingerprint("KeyError", "x") != fingerprint("ValueError", "x")


def test_the_place_counts() -> None:
    assert described(boom, "x").fingerprint != described(boom_elsewhere, "x").fingerprint


def test_the_same_error_at_the_same_place_has_the_same_fingerprint() -> None:
    assert described(boom, "order 1").fingerprint == described(boom, "order 2").fingerprint


def test_the_path_to_the_place_does_not_count() -> None:
    direct = described(boom, "x").fingerprint

    assert described(as_if_in("shop.jobs", boom), "x").fingerprint == direct


def test_the_place_is_in_the_project_not_in_the_library_that_raised() -> None:
    error = described(deep_in_the_standard_library)

    assert error.fingerprint == fingerprint(
        error.error_class, error.text, "tests.vocabulary.failing:deep_in_the_standard_library"
    )


@pytest.mark.parametrize(
    "text", ["'" * 5000, '"' * 5001, "/" * 5000, "a@" * 2500, "1." * 2500, "0x" * 2500, "-" * 5000]
)
def test_no_text_makes_a_fingerprint_slow(text: str) -> None:
    assert fingerprint("E", text)


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_has_a_fingerprint(error_class: str, text: str) -> None:
    assert len(fingerprint(error_class, text)) == 16
