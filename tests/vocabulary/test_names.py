"""Names of queues and job types, keys and owners: what is allowed, and that the refusal says it in bytes."""

import pytest
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.exceptions import InvalidName
from jobqueue.payloads import MAX_KEY_BYTES, MAX_NAME_BYTES, check_key, check_name


@pytest.mark.parametrize("name", ["a", "default", "mail_2", "a.b", "Reports-EU", "_x", "0", "q" * 63])
def test_an_ordinary_name_is_returned(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name", ["q" * 64, "q" * 80, "é" * 40, "A b", "x'y", 'x"y', "sélect;--", "", ".a", "-a", "a\n", "a\x00", "*", "a,b"]
)
def test_a_name_that_a_channel_could_not_have_is_refused(name: str) -> None:
    """C67."""
    with pytest.raises(InvalidName, match="at most 63 bytes of ASCII letters, digits"):
        check_name("queue", name)


def test_the_refusal_states_kind_name_and_bytes() -> None:
    """C67."""
    with pytest.raises(InvalidName, match=rf'^queue "{"é" * 40}" \(80 bytes\) is not allowed'):
        check_name("queue", "é" * 40)


@pytest.mark.parametrize("value", [None, 5, b"default", ["a"]])
@pytest.mark.parametrize("check", [check_name, check_key])
def test_what_is_no_string_is_refused(check: type, value: object) -> None:
    with pytest.raises(InvalidName, match=r"^job type must be a string, not "):
        check("job type", value)


def test_a_lone_surrogate_in_a_name_is_refused_in_printable_text() -> None:
    with pytest.raises(InvalidName) as caught:
        check_name("queue", "\ud800")

    assert r"\ud800" in str(caught.value)
    assert str(caught.value).encode()


@given(st.text(max_size=100))
def test_a_name_that_is_accepted_is_ascii_within_the_limit(name: str) -> None:
    try:
        check_name("queue", name)
    except InvalidName:
        return

    assert name.isascii()
    assert 0 < len(name) <= MAX_NAME_BYTES


@pytest.mark.parametrize("key", ["index:/data/a b.pdf", "é" * 127, "x" * 255, "a\nb", " ", "🎉" * 63])
def test_any_text_within_the_limit_is_a_key(key: str) -> None:
    assert check_key("dedupe key", key) == key


@pytest.mark.parametrize(("key", "size"), [("x" * 256, 256), ("é" * 128, 256), ("🎉" * 64, 256), ("x" * 5000, 5000)])
def test_a_key_over_the_limit_is_refused_with_its_bytes(key: str, size: int) -> None:
    with pytest.raises(InvalidName, match=rf"^dedupe key .* has {size} bytes, the limit is {MAX_KEY_BYTES} bytes"):
        check_key("dedupe key", key)


@pytest.mark.parametrize("key", ["a\x00", "\x00", "\ud800", "x" * 300 + "\udfff"])
def test_a_key_that_cannot_be_stored_is_refused(key: str) -> None:
    """C22."""
    with pytest.raises(InvalidName, match=r"contains NUL or a lone surrogate"):
        check_key("owner", key)


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InvalidName, match=r"^owner must not be empty"):
        check_key("owner", "")


def test_a_safe_string_is_a_string() -> None:
    assert check_key("owner", mark_safe("ann@example.org")) == "ann@example.org"


@given(st.text())
def test_a_key_that_is_accepted_fits(key: str) -> None:
    try:
        check_key("dedupe key", key)
    except InvalidName:
        return

    assert 0 < len(key.encode()) <= MAX_KEY_BYTES
