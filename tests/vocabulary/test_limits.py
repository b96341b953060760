"""Limits: what may be declared, how the operator's go on top, and what breaks an input limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.limits import MAX_DURATION_SECONDS, MB, Limits, check_input, merge_values

ALL = Limits(duration=60, memory_bytes=256 * MB, payload_bytes=1000, payload_fields={"page_count": 2_000})


def test_a_megabyte_is_two_to_the_twentieth() -> None:
    assert MB == 1_048_576


def test_nothing_is_limited_unless_said() -> None:
    assert Limits().given() == {}


@pytest.mark.parametrize("duration", [0, -1, "60", True, float("nan"), float("inf"), MAX_DURATION_SECONDS + 1])
def test_a_duration_that_cannot_work_is_refused(duration: Any) -> None:
    with pytest.raises(ValueError, match="duration must be seconds"):
        Limits(duration=duration)


@pytest.mark.parametrize("memory", [0, -1, 256, 1.5 * MB, "256", True, MB - 1])
def test_memory_in_the_wrong_unit_is_refused(memory: Any) -> None:
    """A limit of 256 was meant as 256 MB: no process could keep it."""
    with pytest.raises(ValueError, match="memory_bytes must be a whole number of bytes, at least 1048576"):
        Limits(memory_bytes=memory)


@pytest.mark.parametrize("size", [0, 1, -5, 2.5, "100", False])
def test_a_payload_limit_below_an_empty_object_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="payload_bytes must be a whole number of bytes, at least 2"):
        Limits(payload_bytes=size)


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 5])
def test_a_field_path_must_have_names_between_its_dots(path: Any) -> None:
    with pytest.raises(ValueError, match="is not a dotted field path"):
        Limits(payload_fields={path: 1})


@pytest.mark.parametrize("bound", ["10", None, True, float("nan")])
def test_a_bound_that_is_no_number_is_refused(bound: Any) -> None:
    with pytest.raises(ValueError, match=r"payload_fields\['pages'\] must be a number"):
        Limits(payload_fields={"pages": bound})


def test_fields_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(ValueError, match="must map field paths to numbers"):
        Limits(payload_fields=["pages"])  # type: ignore[arg-type]


def test_bounds_are_copied() -> None:
    bounds = {"pages": 10}
    limits = Limits(payload_fields=bounds)

    bounds["pages"] = 99

    assert limits.payload_fields == {"pages": 10}


def test_the_limits_on_top_win_and_the_others_stay() -> None:
    merged = ALL.merged(Limits(duration=5))

    assert merged == Limits(5, 256 * MB, 1000, {"page_count": 2_000})


def test_what_is_not_said_on_top_lifts_nothing() -> None:
    assert ALL.merged(Limits()) == ALL


def test_an_explicit_none_lifts_a_limit() -> None:
    assert ALL.merged({"memory_bytes": None}).memory_bytes is None


def test_bounded_fields_are_joined() -> None:
    """An operator who raises one bound must not drop the others."""
    merged = Limits(payload_fields={"pages": 10, "size": 5}).merged(Limits(payload_fields={"pages": 99}))

    assert merged.payload_fields == {"pages": 99, "size": 5}


def test_a_single_field_can_be_freed() -> None:
    merged = Limits(payload_fields={"pages": 10, "size": 5}).merged({"payload_fields": {"pages": None}})

    assert merged.payload_fields == {"size": 5}


def test_all_fields_can_be_freed_at_once() -> None:
    assert ALL.merged({"payload_fields": None}).payload_fields is None


def test_an_unknown_limit_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown limit memory; known are duration, memory_bytes"):
        ALL.merged({"memory": 5})


def test_merging_changes_neither_side() -> None:
    under, over = {"payload_fields": {"a": 1}}, {"payload_fields": {"b": 2}}

    merge_values(under, over)

    assert (under, over) == ({"payload_fields": {"a": 1}}, {"payload_fields": {"b": 2}})


@pytest.mark.parametrize("limits", [ALL, Limits(), Limits(duration=0.5)])
def test_limits_come_back_from_json(limits: Limits) -> None:
    assert Limits.from_json(limits.to_json()) == limits


def test_from_json_refuses_values_as_the_constructor_does() -> None:
    with pytest.raises(ValueError, match="memory_bytes"):
        Limits.from_json({"memory_bytes": 5})


def test_a_payload_within_its_limits_is_fine() -> None:
    assert check_input(ALL, {"page_count": 2_000}, 1000) is None


def test_one_byte_over_is_told_with_size_and_limit() -> None:
    """C99."""
    assert check_input(ALL, {}, 1001) == "the payload has 1001 bytes, its limit is 1000"


def test_a_number_over_its_bound_is_told_with_both() -> None:
    assert check_input(ALL, {"page_count": 2_001}, 20) == "payload field page_count is 2001, its limit is 2000"


def test_a_bounded_field_may_be_missing() -> None:
    assert check_input(ALL, {"path": "a.pdf"}, 20) is None


def test_a_field_within_objects_is_found_by_its_dotted_path() -> None:
    limits = Limits(payload_fields={"document.size.bytes": 10})

    assert check_input(limits, {"document": {"size": {"bytes": 11}}}, 50) is not None
    assert check_input(limits, {"document": {"size": {"bytes": 10}}}, 50) is None


@pytest.mark.parametrize("payload", [{"document": 5}, {"document": [1]}, {"document": None}, {"document": {}}])
def test_a_path_that_ends_early_is_a_missing_field(payload: dict[str, Any]) -> None:
    assert check_input(Limits(payload_fields={"document.pages": 1}), payload, 50) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [("12", "a string"), (None, "null"), (True, "a boolean"), ([1], "an array"), ({"a": 1}, "an object")],
)
def test_a_bounded_field_that_is_no_number_breaks_the_limit(value: Any, kind: str) -> None:
    """What cannot be compared cannot be trusted to be small."""
    text = check_input(Limits(payload_fields={"pages": 10}), {"pages": value}, 20)

    assert text == f"payload field pages is {kind}, its limit of 10 needs a number"


def test_a_whole_number_beyond_any_float_is_compared_and_shown() -> None:
    text = check_input(Limits(payload_fields={"pages": 10}), {"pages": 10**5000}, 5010)

    assert text == "payload field pages is above 10**30, its limit is 10"


def test_a_large_float_is_shown_short() -> None:
    text = check_input(Limits(payload_fields={"pages": 10}), {"pages": 1.5e40}, 50)

    assert text == "payload field pages is 1.500000e+40, its limit is 10"


def test_a_negative_number_is_below_any_positive_bound() -> None:
    assert check_input(Limits(payload_fields={"pages": 10}), {"pages": -(10**400)}, 500) is None


@given(value=st.integers() | st.floats(allow_nan=False, allow_infinity=False), bound=st.integers(-1000, 1000))
def test_any_number_is_judged_as_python_compares_it(value: float, bound: int) -> None:
    broken = check_input(Limits(payload_fields={"field": bound}), {"field": value}, 20)

    assert (broken is not None) is (value > bound)


@given(payload=st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.integers() | st.lists(st.none())))
def test_no_payload_makes_the_check_fail_itself(payload: dict[str, Any]) -> None:
    limits = Limits(payload_fields={"a": 1, "a.b": 1, "b": 2})

    assert check_input(limits, payload, 2) is None or "a" in payload or "b" in payload
