"""What is particular to Korean: its particles, and durations in whole sentences."""

import re
from datetime import timedelta

import pytest
from django.utils import translation

from jobqueue.admin.wording import span
from jobqueue.ops.alert_words import lasting, spoken

from .catalogue import read

# These change with the sound that the word before them ends in, which nobody knows of a value that is filled in.
PARTICLE = re.compile(r"%\(?\w*\)?[sd]['\"]?(?:을|를|이|가|은|는|과|와|으로|로|아|야)(?![가-힣])")


def test_no_particle_follows_what_is_filled_in() -> None:
    texts = [text for entry in read("ko") for text in [entry.msgstr, *entry.msgstr_plural.values()]]

    assert [text for text in texts if PARTICLE.search(text)] == []


@pytest.mark.parametrize("text", ["%(queue)s를 재개", "작업 %d과 같음", "'%(queue)s'가 멈춤"])
def test_such_a_particle_is_seen(text: str) -> None:
    assert PARTICLE.search(text)


@pytest.mark.parametrize("text", ["%(queue)s 큐를 재개", "%(time)s까지", "%(who)s에 의해", "상태가 %(status)s이므로"])
def test_others_may_stand_there(text: str) -> None:
    assert not PARTICLE.search(text)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (2.5, "2.5초"),
        (59, "59초"),
        (60, "1분"),
        (61, "1분 1초"),
        (3_600, "1시간"),
        (90_060, "1일 1시간"),
        (86_400, "1일"),
    ],
)
def test_durations_of_sentences_are_translated_and_stored_ones_are_not(seconds: float, told: str) -> None:
    with translation.override("ko"):
        assert spoken(seconds) == told
        assert lasting(seconds).isascii()
        assert span(timedelta(minutes=3, seconds=20)) == "3분 20초"
