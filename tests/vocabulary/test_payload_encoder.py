"""The encoder behind payloads also works on a Python that has none in C."""

import json

import pytest

from jobqueue import payloads
from jobqueue.exceptions import PayloadError


def test_without_the_encoder_in_c_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"a": "é\x01\\", "b": [1, 1e16, None, True, (2,)], "c": {}}
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)

    to_text = payloads._make_encoder()

    assert to_text(value) == payloads._to_text(value)


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": object()}])
def test_without_the_encoder_in_c_the_same_is_refused(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    monkeypatch.setattr(payloads, "_to_text", payloads._make_encoder())

    with pytest.raises(PayloadError):
        payloads.encode_payload(value, max_bytes=100)


def test_two_encodings_share_no_state() -> None:
    with pytest.raises(PayloadError):
        payloads.encode_payload({"a": [object()]}, max_bytes=100)

    assert payloads.encode_payload({"a": [1]}, max_bytes=100).text == '{"a": [1]}'
