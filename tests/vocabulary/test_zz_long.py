"""Any accepted payload is accepted by PostgreSQL, and has the size that jsonb's own text has there."""

from contextlib import suppress
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobqueue.exceptions import PayloadError
from jobqueue.payloads import encode_payload, encode_result

pytestmark = pytest.mark.django_db

LIMIT = 1_048_576

many = settings(
    max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

good_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
good_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | good_text
good_values = st.recursive(
    good_scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(good_text, inner),
    max_leaves=20,
)

any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none(), inner),
    max_leaves=10,
)


def sizes_in_postgresql(texts: list[str]) -> list[int]:
    """Return the bytes of each value's text as jsonb prints it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT octet_length(value::jsonb::text) FROM unnest(%s::text[]) WITH ORDINALITY AS t (value, place)"
            " ORDER BY place",
            [texts],
        )
        return [row[0] for row in cursor.fetchall()]


@many
@given(st.lists(st.dictionaries(good_text, good_values), max_size=10))
@example([{"n": number} for number in (1e16, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, 2**4000, -1.5e22, 1e-4)])
@example([{"c": "".join(map(chr, range(1, 0x100)))}, {"\x7f\x1f\b\f": "\\u0000"}, {"a": "e-", "b": 0.1}])
def test_the_size_of_any_payload_is_that_of_jsonb(payloads: list[dict[str, Any]]) -> None:
    encoded = [encode_payload(payload, max_bytes=LIMIT) for payload in payloads]

    assert sizes_in_postgresql([text for text, _ in encoded]) == [size for _, size in encoded]


@many
@given(st.lists(good_values, max_size=10))
def test_the_size_of_any_result_is_that_of_jsonb(results: list[Any]) -> None:
    encoded = [encode_result(result, LIMIT) for result in results]

    assert sizes_in_postgresql([text for text, _ in encoded]) == [size for _, size in encoded]


@many
@given(st.lists(st.dictionaries(st.text(), any_values, max_size=3), max_size=10))
def test_whatever_is_not_refused_in_python_is_not_refused_by_postgresql(payloads: list[dict[str, Any]]) -> None:
    """C22, C43."""
    texts = []
    for payload in payloads:
        with suppress(PayloadError):
            texts.append(encode_payload(payload, max_bytes=LIMIT).text)

    assert len(sizes_in_postgresql(texts)) == len(texts)


def test_a_hundred_levels_are_within_what_postgresql_parses() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"a": [value]} if isinstance(value, int) else {"a": value}
    encoded = encode_payload(value["a"], max_bytes=LIMIT)

    assert sizes_in_postgresql([encoded.text]) == [encoded.size]


def test_a_payload_of_exactly_the_limit_has_that_size_in_postgresql() -> None:
    """C99."""
    encoded = encode_payload({"a": "é" * ((LIMIT - 9) // 2) + "x"}, max_bytes=LIMIT)

    assert sizes_in_postgresql([encoded.text]) == [encoded.size] == [LIMIT]
