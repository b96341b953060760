"""The short way of the usual payload answers as the long one, or leaves the answer to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue import payloads
from jobqueue.exceptions import PayloadError
from jobqueue.payloads import encode_payload, flat_encoder

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=3))
KEYS = st.one_of(st.text(max_size=8), st.integers())


@given(st.dictionaries(KEYS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=5))
def test_the_short_way_never_contradicts_the_long_one(payload: dict[Any, Any]) -> None:
    text = flat_encoder(60)(payload)

    if text is not None:
        assert encode_payload(payload, max_bytes=60) == (text, len(text))


@pytest.mark.parametrize("payload", [{}, {"a": 1}, {"a": "x", "b": True, "c": None, "d": -(10**30)}, {'\n"\\': ""}])
def test_the_usual_payload_takes_the_short_way(payload: dict[str, Any]) -> None:
    assert flat_encoder(100)(payload) == encode_payload(payload, max_bytes=100).text


@pytest.mark.parametrize(
    "payload",
    [None, [], {"a": 1.5}, {"a": []}, {"a": {}}, {1: 1}, {"a": "\x00"}, {"a": "é"}, {"a": "\udc00"}, {"a": "x" * 99}],
    ids=ascii,
)
def test_everything_else_is_left_to_the_long_way(payload: Any) -> None:
    assert flat_encoder(100)(payload) is None


def test_a_number_of_too_many_digits_is_left_to_the_long_way() -> None:
    payload = {"a": 10**5000}

    assert flat_encoder(10**6)(payload) is None
    with pytest.raises(PayloadError, match="more than 4300 digits"):
        encode_payload(payload, max_bytes=10**6)


def test_a_key_that_is_no_string_is_told_from_the_known_ones() -> None:
    """The encoder remembers the keys it has seen; 1 and True must not pass for one of them."""
    encode = flat_encoder(100)

    assert [encode(payload) for payload in ({"1": 2}, {"1": 2}, {1: 2}, {True: 2}, {"2": 3})] == [
        '{"1": 2}',
        '{"1": 2}',
        None,
        None,
        '{"2": 3}',
    ]


def test_only_so_many_keys_of_small_payloads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that users choose must not stay in memory for the life of a process."""
    checked: list[int] = []

    class Types:
        def issuperset(self, types: Any) -> bool:
            checked.append(len(list(types)))
            return True

    encode = flat_encoder(100_000)
    monkeypatch.setattr(payloads, "_STRING", Types())
    many = [{f"{which}{n}": 1 for n in range(330)} for which in "abc"]
    few = {f"f{n}": 1 for n in range(11)}
    for payload in ({"l" * 5_000: 1}, {"refused": "x" * 100_000}, *many, few):
        for _ in range(2):
            encode(payload)

    # Of the long text, the refused one and the one that went beyond a thousand nothing was kept.
    assert checked == [1, 1, 1, 1, 330, 330, 330, 11, 11]
