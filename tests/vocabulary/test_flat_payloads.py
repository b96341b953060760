"""The short way of bulk calls answers as the long one, or leaves the answer to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.exceptions import PayloadError
from jobqueue.payloads import encode_flat, encode_payload

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=3))
KEYS = st.one_of(st.text(max_size=8), st.integers())


@given(st.dictionaries(KEYS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=5))
def test_the_short_way_never_contradicts_the_long_one(payload: dict[Any, Any]) -> None:
    text = encode_flat(payload, 60)

    if text is not None:
        assert encode_payload(payload, max_bytes=60) == (text, len(text))


@pytest.mark.parametrize("payload", [{}, {"a": 1}, {"a": "x", "b": True, "c": None, "d": -(10**30)}, {'\n"\\': ""}])
def test_the_usual_payload_takes_the_short_way(payload: dict[str, Any]) -> None:
    assert encode_flat(payload, 100) == encode_payload(payload, max_bytes=100).text


@pytest.mark.parametrize(
    "payload",
    [None, [], {"a": 1.5}, {"a": []}, {"a": {}}, {1: 1}, {"a": "\x00"}, {"a": "é"}, {"a": "\udc00"}, {"a": "x" * 99}],
    ids=ascii,
)
def test_everything_else_is_left_to_the_long_way(payload: Any) -> None:
    assert encode_flat(payload, 100) is None


def test_a_number_of_too_many_digits_is_left_to_the_long_way() -> None:
    payload = {"a": 10**5000}

    assert encode_flat(payload, 10**6) is None
    with pytest.raises(PayloadError, match="more than 4300 digits"):
        encode_payload(payload, max_bytes=10**6)
