"""The settings: defaults, overriding, what is refused by key, value and rule, and what contradicts what."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from pytest_django import Settings

from jobqueue import conf
from jobqueue.conf import JobQueueSettings, build, get_settings, limits_for, problems
from jobqueue.exceptions import ConfigurationError
from jobqueue.limits import MB, Limits

DEFAULTS = JobQueueSettings()


def texts(*, fatal: bool, **changes: Any) -> list[str]:
    return [problem.text for problem in problems(DEFAULTS.changed(**changes)) if problem.fatal is fatal]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("LEASE_SECONDS", 120),
        ("DEADLINE_SECONDS", 300),
        ("STUCK_AFTER_SECONDS", 600),
        ("MAX_ATTEMPTS", 3),
        ("PRIORITY", 100),
        ("BACKOFF_BASE_SECONDS", 5),
        ("BACKOFF_FACTOR", 2),
        ("BACKOFF_CAP_SECONDS", 600),
        ("INTERRUPTION_BUDGET", 10),
        ("POLL_SECONDS", 1),
        ("MAINTENANCE_SECONDS", 1),
        ("SHUTDOWN_TIMEOUT", 25),
        ("KILL_GRACE", 1),
        ("PROCESSES", None),
        ("THREADS", 1),
        ("CHILD_MAX_JOBS", 10_000),
        ("CHILD_MAX_BYTES", 512 * MB),
        ("PAYLOAD_MAX_BYTES", MB),
        ("RESULT_MAX_BYTES", MB),
        ("ERROR_MAX_BYTES", 16_384),
        ("RETENTION_DONE_SECONDS", 604_800),
        ("RETENTION_CANCELLED_SECONDS", 604_800),
        ("RETENTION_DEAD_SECONDS", None),
        ("NOTIFY", True),
        ("LISTEN_DSN", None),
        ("PREPARED", True),
        ("ASYNC_CLAIMS", False),
        ("STATEMENT_TIMEOUT", 10),
    ],
)
def test_the_defaults_are_those_of_the_design(key: str, value: object) -> None:
    assert getattr(DEFAULTS, key) == value


def test_the_defaults_contradict_nothing() -> None:
    assert problems(DEFAULTS) == []


def test_the_defaults_keep_their_own_rules() -> None:
    values = {field.name: getattr(DEFAULTS, field.name) for field in fields(DEFAULTS)}

    assert build(values) == DEFAULTS


def test_a_value_is_taken_and_the_others_keep_their_defaults() -> None:
    settings = build({"LEASE_SECONDS": 6})

    assert (settings.LEASE_SECONDS, settings.PRIORITY) == (6, 100)


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        DEFAULTS.PRIORITY = 5  # type: ignore[misc]


# Django's settings


def test_without_the_setting_there_are_the_defaults(settings: Settings) -> None:
    settings.JOBQUEUE = {"PRIORITY": 5}
    del settings.JOBQUEUE

    assert get_settings() == DEFAULTS


def test_an_overridden_setting_is_in_force_and_gone_afterwards(settings: Settings) -> None:
    settings.JOBQUEUE = {"PRIORITY": 5}
    with override_settings(JOBQUEUE={"PRIORITY": 7}):
        inside = get_settings().PRIORITY

    assert (inside, get_settings().PRIORITY) == (7, 5)


def test_the_settings_are_built_once() -> None:
    assert get_settings() is get_settings()


def test_another_setting_does_not_build_them_anew(settings: Settings) -> None:
    before = get_settings()

    settings.TIME_ZONE = "Asia/Tokyo"

    assert get_settings() is before


def test_wrong_settings_raise_at_each_use(settings: Settings) -> None:
    settings.JOBQUEUE = {"PRIORITY": "high"}

    for _ in range(2):
        with pytest.raises(ConfigurationError):
            get_settings()


@pytest.mark.parametrize("value", [None, 5, ["LEASE_SECONDS"], "LEASE_SECONDS=6"])
def test_what_is_no_dict_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^JOBQUEUE must be a dict, not "):
        build(value)


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown key LEASE, lease_seconds; known are .*LEASE_SECONDS"):
        build({"lease_seconds": 6, "LEASE": 6})


def test_the_refusal_of_a_value_names_key_value_and_rule() -> None:
    with pytest.raises(ConfigurationError, match=r"^JOBQUEUE\['LEASE_SECONDS'\] = 4: must be from 5 to 3600$"):
        build({"LEASE_SECONDS": 4})


# Helpers


def test_changed_settings_obey_the_same_rules() -> None:
    """The worker's options go through here."""
    assert DEFAULTS.changed(LEASE_SECONDS=6).LEASE_SECONDS == 6
    with pytest.raises(ConfigurationError, match="LEASE_SECONDS"):
        DEFAULTS.changed(LEASE_SECONDS=1)
    with pytest.raises(ConfigurationError, match="unknown key LEASE;"):
        DEFAULTS.changed(LEASE=6)


def test_a_lease_is_renewed_every_third() -> None:
    settings = build({"LEASE_SECONDS": 6})

    assert (settings.lease, settings.renew_interval) == (timedelta(seconds=6), timedelta(seconds=2))


@pytest.mark.parametrize(("lease", "margin"), [(5, 1), (10, 1), (120, 12)])
def test_the_margin_before_the_end_of_a_lease_is_a_tenth_but_a_second_at_least(lease: int, margin: int) -> None:
    assert build({"LEASE_SECONDS": lease}).lease_margin == timedelta(seconds=margin)


@pytest.mark.parametrize(("lease", "seconds"), [(6, 3), (20, 10), (120, 10)])
def test_no_statement_of_the_worker_takes_longer_than_half_a_lease(lease: int, seconds: int) -> None:
    assert build({"LEASE_SECONDS": lease}).statement_timeout == timedelta(seconds=seconds)


def test_durations_are_read_from_the_settings_in_force(settings: Settings) -> None:
    settings.JOBQUEUE = {"LEASE_SECONDS": 6, "DEADLINE_SECONDS": 7, "STUCK_AFTER_SECONDS": 8}

    assert [call().total_seconds() for call in (conf.lease, conf.deadline, conf.stuck_after)] == [6, 7, 8]


# Limits by job type


def test_a_job_type_without_any_limit_has_the_deadline_of_the_settings(settings: Settings) -> None:
    settings.JOBQUEUE = {"DEADLINE_SECONDS": 42}

    assert limits_for("a.b", Limits()) == Limits(duration=42)


def test_declared_limits_stand_above_the_defaults(settings: Settings) -> None:
    settings.JOBQUEUE = {"DEFAULT_LIMITS": {"duration": 10, "memory_bytes": 64 * MB}}

    assert limits_for("a.b", Limits(duration=60)) == Limits(duration=60, memory_bytes=64 * MB)


def test_the_operator_s_limits_of_the_type_stand_above_all(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.b": {"duration": 5}}, "DEFAULT_LIMITS": {"duration": 10}}

    assert limits_for("a.b", Limits(duration=60, payload_bytes=99)) == Limits(duration=5, payload_bytes=99)


def test_the_operator_s_limits_of_another_type_do_not_count(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.c": {"duration": 5}}}

    assert limits_for("a.b", Limits(duration=60)).duration == 60


def test_the_operator_can_lift_a_declared_limit(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.b": {"memory_bytes": None}}}

    assert limits_for("a.b", Limits(memory_bytes=64 * MB)).memory_bytes is None


def test_a_lifted_duration_is_the_deadline_of_the_settings(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.b": {"duration": None}}}

    assert limits_for("a.b", Limits(duration=60)).duration == 300


def test_raising_one_field_keeps_the_other_fields_bounded(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.b": {"payload_fields": {"pages": 99}}}}

    limits = limits_for("a.b", Limits(payload_fields={"pages": 10, "size": 5}))

    assert limits.payload_fields == {"pages": 99, "size": 5}


def test_limits_may_be_given_as_limits(settings: Settings) -> None:
    settings.JOBQUEUE = {"LIMITS": {"a.b": Limits(duration=5)}, "DEFAULT_LIMITS": Limits(payload_bytes=9)}

    assert limits_for("a.b", Limits()) == Limits(duration=5, payload_bytes=9)


# Relations


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"LEASE_SECONDS": 6, "KILL_GRACE": 3}, "KILL_GRACE (3 s) and the margin before the end of a lease (1 s)"),
        ({"BACKOFF_BASE_SECONDS": 700}, "BACKOFF_CAP_SECONDS (600) is below BACKOFF_BASE_SECONDS (700)"),
        ({"UNKNOWN_TYPE_DEAD_SECONDS": 2}, "UNKNOWN_TYPE_DEAD_SECONDS (2) is below UNKNOWN_TYPE_RETRY_SECONDS (5)"),
    ],
)
def test_what_breaks_a_promise_is_fatal(changes: dict[str, Any], words: str) -> None:
    found = texts(fatal=True, **changes)

    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"STATEMENT_TIMEOUT": 120}, "STATEMENT_TIMEOUT (120 s) is not below LEASE_SECONDS (120 s)"),
        ({"POLL_SECONDS": 300}, "POLL_SECONDS (300 s) is not below LEASE_SECONDS (120 s)"),
        ({"MAINTENANCE_SECONDS": 300}, "MAINTENANCE_SECONDS (300 s) is not below LEASE_SECONDS (120 s)"),
        ({"STUCK_AFTER_SECONDS": 200}, "STUCK_AFTER_SECONDS (200) is below DEADLINE_SECONDS (300)"),
        ({"LISTEN_DSN": "host=db", "NOTIFY": False}, "LISTEN_DSN is set but NOTIFY is off"),
        (
            {"RETENTION_STATISTICS_SECONDS": 86_400, "BUDGETS": {"all": {"amount": "1", "per": "month"}}},
            "RETENTION_STATISTICS_SECONDS (86400) is less than a month",
        ),
    ],
)
def test_what_only_delays_is_a_warning(changes: dict[str, Any], words: str) -> None:
    found = texts(fatal=False, **changes)

    assert len(found) == 1
    assert words in found[0]
    assert texts(fatal=True, **changes) == []


def test_the_shortest_lease_fits_the_default_grace() -> None:
    assert texts(fatal=True, LEASE_SECONDS=5) == []


def test_whole_seconds_from_an_environment_are_shown_without_a_point() -> None:
    assert "(300 s) is not below LEASE_SECONDS (120 s)" in texts(fatal=False, POLL_SECONDS=300.0)[0]
