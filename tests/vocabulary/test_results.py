"""What a result may hold: any JSON value within the limit, by the rules of a payload."""

import json
from typing import Any

import pytest

from jobqueue.exceptions import ResultError
from jobqueue.payloads import encode_result

MIB = 1_048_576


def nested(depth: int, innermost: Any = 1) -> dict[str, Any]:
    value = innermost
    for _ in range(depth):
        value = {"a": value}
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [None, True, 5, 1.5, "text", [], {}, [1, {"a": (2,)}]])
def test_a_result_is_any_json_value(value: Any) -> None:
    assert json.loads(encode_result(value, MIB).text) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("value", "path"),
    [(float("nan"), "$"), ([1, float("nan")], "$[1]"), ("\x00", "$"), ({"a": object()}, "$.a"), (object(), "$")],
)
def test_a_result_that_cannot_be_stored_is_refused_with_its_path(value: Any, path: str) -> None:
    """C43."""
    with pytest.raises(ResultError, match=r"^result not storable: ") as caught:
        encode_result(value, MIB)

    assert caught.value.path == path


def test_a_result_over_the_limit_is_refused() -> None:
    with pytest.raises(ResultError, match="12 bytes of JSON are over the limit of 11"):
        encode_result("x" * 10, 11)


def test_a_result_of_a_hundred_levels_is_accepted_and_more_refused() -> None:
    assert encode_result(nested(100), MIB)
    with pytest.raises(ResultError, match="nested deeper"):
        encode_result([nested(100)], MIB)
