"""The rule of each setting by itself."""

from dataclasses import fields
from typing import Any

import pytest

from jobqueue.conf import JobQueueSettings
from jobqueue.limits import MB, Limits
from jobqueue.rules import RULES

SECONDS = [
    "LEASE_SECONDS",
    "DEADLINE_SECONDS",
    "STUCK_AFTER_SECONDS",
    "BACKOFF_BASE_SECONDS",
    "BACKOFF_FACTOR",
    "BACKOFF_CAP_SECONDS",
    "POLL_SECONDS",
    "MAINTENANCE_SECONDS",
    "SHUTDOWN_TIMEOUT",
    "KILL_GRACE",
    "STATEMENT_TIMEOUT",
    "RETENTION_DONE_SECONDS",
    "UNKNOWN_TYPE_RETRY_SECONDS",
]

WHOLE = [
    "MAX_ATTEMPTS",
    "PRIORITY",
    "INTERRUPTION_BUDGET",
    "PROCESSES",
    "THREADS",
    "CHILD_MAX_JOBS",
    "CHILD_MAX_BYTES",
    "PAYLOAD_MAX_BYTES",
    "RESULT_MAX_BYTES",
    "ERROR_MAX_BYTES",
]


def refuse(key: str, value: Any, match: str = "must be ") -> None:
    with pytest.raises(ValueError, match=match):
        RULES[key](value)


def test_every_setting_has_a_rule_and_every_rule_a_setting() -> None:
    assert set(RULES) == {field.name for field in fields(JobQueueSettings)}


@pytest.mark.parametrize("key", SECONDS)
@pytest.mark.parametrize("value", ["10", True, float("nan"), float("inf"), -1, 10**12, [10]])
def test_seconds_are_numbers_within_bounds(key: str, value: Any) -> None:
    refuse(key, value, "must be ")


@pytest.mark.parametrize("key", WHOLE)
@pytest.mark.parametrize("value", ["10", True, 1.5, 10.0, 2**60, [10]])
def test_counts_and_bytes_are_whole_numbers_within_bounds(key: str, value: Any) -> None:
    refuse(key, value, "must be ")


@pytest.mark.parametrize(
    "key", [key for key in (*SECONDS, *WHOLE) if key not in ("PROCESSES", "RETENTION_DONE_SECONDS")]
)
def test_a_number_cannot_be_left_out(key: str) -> None:
    refuse(key, None)


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("LEASE_SECONDS", 5, 3600),
        ("MAX_ATTEMPTS", 1, 32_767),
        ("PRIORITY", -32_768, 32_767),
        ("POLL_SECONDS", 0.01, 3600),
        ("PAYLOAD_MAX_BYTES", 2, 64 * MB),
        ("ERROR_MAX_BYTES", 256, MB),
        ("INTERRUPTION_BUDGET", 0, 10_000),
    ],
)
def test_both_bounds_are_allowed_and_nothing_beyond(key: str, low: float, high: float) -> None:
    assert (RULES[key](low), RULES[key](high)) == (low, high)
    refuse(key, low - 1)
    refuse(key, high + 1)


@pytest.mark.parametrize(
    "key",
    [
        "PROCESSES",
        "RETENTION_DONE_SECONDS",
        "RETENTION_CANCELLED_SECONDS",
        "RETENTION_DEAD_SECONDS",
        "LISTEN_DSN",
        "DATABASE",
    ],
)
def test_some_settings_may_be_none(key: str) -> None:
    assert RULES[key](None) is None


@pytest.mark.parametrize("key", ["NOTIFY", "PREPARED", "ASYNC_CLAIMS"])
@pytest.mark.parametrize("value", ["False", 0, 1, None])
def test_a_flag_is_true_or_false_and_no_text(key: str, value: Any) -> None:
    """The text "False" would count as true."""
    refuse(key, value, "must be True or False")
    assert RULES[key](False) is False


@pytest.mark.parametrize("key", ["LISTEN_DSN", "COST_PATH", "DATABASE"])
@pytest.mark.parametrize("value", ["", 5, ["a"]])
def test_a_text_is_a_string_and_not_empty(key: str, value: Any) -> None:
    refuse(key, value, "must be a string")


@pytest.mark.parametrize("key", ["NOTIFIERS", "COST_UNITS"])
@pytest.mark.parametrize("value", ["USD", 5, None, {"USD"}, ["USD", 5], [""]])
def test_a_list_of_texts_is_not_one_text(key: str, value: Any) -> None:
    refuse(key, value, "must be a ")


def test_a_list_of_texts_becomes_a_tuple() -> None:
    assert RULES["COST_UNITS"](["USD", "EUR"]) == ("USD", "EUR")


def test_there_may_be_no_notifier_but_there_is_a_unit() -> None:
    assert RULES["NOTIFIERS"]([]) == ()
    refuse("COST_UNITS", [], "must name at least one")


@pytest.mark.parametrize("value", [5, "duration=5", None, [("duration", 5)]])
def test_limits_are_limits_or_a_dict(value: Any) -> None:
    refuse("DEFAULT_LIMITS", value, "must be a Limits or a dict of limits")


@pytest.mark.parametrize(
    ("value", "match"), [({"duration": 0}, "duration must be"), ({"time": 5}, "unknown limit time")]
)
def test_limits_are_checked_where_they_are_set(value: Any, match: str) -> None:
    refuse("DEFAULT_LIMITS", value, match)


def test_none_within_limits_is_kept() -> None:
    assert RULES["LIMITS"]({"a.b": {"duration": None}}) == {"a.b": {"duration": None}}


def test_limits_by_type_may_mix_both_forms() -> None:
    found = RULES["LIMITS"]({"a.b": Limits(duration=5), "a.c": {"payload_bytes": 9}})

    assert found == {"a.b": {"duration": 5}, "a.c": {"payload_bytes": 9}}


def test_wrong_limits_of_a_type_name_the_type() -> None:
    refuse("LIMITS", {"a.b": {"duration": -1}}, r"^a\.b: duration must be")


def test_limits_of_a_name_that_no_type_can_have_are_refused() -> None:
    refuse("LIMITS", {"a b": {}}, r'^job type "a b"')


def test_limits_by_type_are_a_dict() -> None:
    refuse("LIMITS", [Limits()], "must be a dict from job types to limits")


def test_a_rule_changes_nothing_of_what_it_was_given() -> None:
    given = {"a.b": {"payload_fields": {"pages": 5}}}

    kept = RULES["LIMITS"](given)
    given["a.b"]["duration"] = 9  # type: ignore[assignment]

    assert kept == {"a.b": {"payload_fields": {"pages": 5}}}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (7, "must be a string"),
        ("javascript:{job_id}", "must be an address"),
        ("https://logs.example.org/{payload}", "not {payload}"),
        ("https://logs.example.org/{job_id.real}", "not {job_id.real}"),
        ("https://logs.example.org/{}", "not {}"),
        ("https://logs.example.org/{job_id:>99}", "not {job_id}"),
        ("https://logs.example.org/{job_id!r}", "not {job_id}"),
        ("https://logs.example.org/{job_id", "cannot be filled in"),
    ],
)
def test_a_link_to_logs_names_what_is_known_only(value: Any, match: str) -> None:
    refuse("LOG_LINK", value, match)


def test_a_link_to_logs_keeps_its_placeholders_and_braces() -> None:
    link = "https://logs.example.org/?q={job_id}&left={{x}}&from={since_ms}"

    assert RULES["LOG_LINK"](link) == link
    assert RULES["LOG_LINK"](None) is None


@pytest.mark.parametrize("value", [None, 7, "two\nlines", "nul\x00", "x" * 101])
def test_a_release_is_a_short_line(value: object) -> None:
    refuse("RELEASE", value, "printable characters")


def test_a_release_may_be_none_and_has_no_blanks_around_it() -> None:
    assert RULES["RELEASE"]("") == ""
    assert RULES["RELEASE"](" v1.2-3-gabc ") == "v1.2-3-gabc"
