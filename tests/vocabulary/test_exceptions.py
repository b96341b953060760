"""The error hierarchy: what it can be caught as, what it says, and what it carries."""

import pickle
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from jobqueue import exceptions
from jobqueue.exceptions import (
    ConfigurationError,
    Dead,
    Discard,
    HandlerImportError,
    InvalidName,
    InvalidTransition,
    InvalidWebhook,
    JobCancelled,
    JobDeadlineExceeded,
    JobInterrupted,
    JobLeaseLost,
    JobQueueError,
    JobStopped,
    LeaseLost,
    PayloadError,
    ResultError,
    Retry,
    Snooze,
    UnknownJobType,
    WebhookError,
)
from jobqueue.states import Status

ERRORS = [
    PayloadError("$.a", "no", 3, "documents.index"),
    ResultError("$", "too large"),
    UnknownJobType("documents.index", "see the log"),
    HandlerImportError("documents.index", "documents.jobs", "ImportError: no"),
    InvalidName("queue must not be empty"),
    LeaseLost(7, 2),
    InvalidTransition(7, Status.DONE, "redrive"),
    ConfigurationError("JOBQUEUE is wrong"),
    InvalidWebhook("no URL"),
    WebhookError("busy", permanent=False, status=503, retry_after=timedelta(seconds=7)),
]

CONTROL = [Retry(), Snooze(1), Discard(), Dead()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_is_a_job_queue_error(error: Exception) -> None:
    assert isinstance(error, JobQueueError)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_its_message_and_fields(error: Exception) -> None:
    """Parallel test runners send errors between processes."""
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PayloadError("$", "no"), ValueError),
        (ResultError("$", "no"), ValueError),
        (InvalidName("no"), ValueError),
        (UnknownJobType("x"), LookupError),
        (ConfigurationError("no"), ImproperlyConfigured),
    ],
)
def test_an_error_can_be_caught_as_its_builtin_kind(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(error, kind)


def test_a_payload_error_names_type_item_path_and_rule() -> None:
    error = PayloadError("$.a[0]", "NaN is not a JSON number", 7, "documents.index")

    assert str(error) == "payload of documents.index, item 7: $.a[0]: NaN is not a JSON number"
    assert (error.path, error.rule, error.index, error.job_type) == (
        "$.a[0]",
        "NaN is not a JSON number",
        7,
        "documents.index",
    )


def test_a_payload_error_of_a_single_job_has_no_index() -> None:
    error = PayloadError("$", "no")

    assert str(error) == "payload: $: no"
    assert error.index is None


def test_item_zero_is_named_too() -> None:
    assert str(PayloadError("$", "no", 0)) == "payload, item 0: $: no"


def test_a_result_error_says_that_the_result_was_not_storable() -> None:
    """C43."""
    assert str(ResultError("$.x", "NaN is not a JSON number")) == "result not storable: $.x: NaN is not a JSON number"


def test_an_unknown_type_is_named_with_the_hint() -> None:
    assert str(UnknownJobType("a.b")) == "no handler is registered for job type 'a.b'"
    assert str(UnknownJobType("a.b", "why")) == "no handler is registered for job type 'a.b': why"


def test_an_import_error_carries_the_text_of_the_module() -> None:
    error = HandlerImportError("a.b", "a.jobs", "ModuleNotFoundError: No module named 'x'")

    assert "a.jobs" in str(error)
    assert str(error).endswith("ModuleNotFoundError: No module named 'x'")


def test_a_lost_lease_names_job_and_epoch() -> None:
    error = LeaseLost(7, 2)

    assert (error.job_id, error.lease_epoch) == (7, 2)
    assert str(error) == "job 7: lease 2 is no longer held"


def test_a_refused_change_names_the_current_status() -> None:
    error = InvalidTransition(7, Status.DONE, "redrive")

    assert str(error) == "job 7: cannot redrive, its status is DONE"
    assert (error.job_id, error.status, error.wanted) == (7, Status.DONE, "redrive")


def test_a_refused_change_of_no_job_says_so() -> None:
    assert str(InvalidTransition(7, None, "cancel")) == "job 7: cannot cancel, there is no such job"


@pytest.mark.parametrize("control", CONTROL, ids=lambda control: type(control).__name__)
def test_what_steers_a_job_is_no_error_of_the_package(control: Exception) -> None:
    assert not isinstance(control, JobQueueError)


@pytest.mark.parametrize("delay", [10, 10.0, timedelta(seconds=10)])
def test_a_delay_is_seconds_or_a_timedelta(delay: float | timedelta) -> None:
    assert Retry(delay).delay == Snooze(delay).delay == timedelta(seconds=10)


def test_retry_without_a_delay_leaves_it_to_the_backoff() -> None:
    assert Retry().delay is None


def test_a_delay_of_zero_is_not_no_delay() -> None:
    assert Retry(0).delay == timedelta(0)


@pytest.mark.parametrize("delay", [-1, -0.001, float("nan"), float("inf"), 1e300, timedelta(days=3651)])
def test_a_delay_that_would_lose_the_job_is_refused(delay: float | timedelta) -> None:
    """C76: never in the past, never in the year 9999."""
    with pytest.raises(ValueError, match="delay"):
        Retry(delay)


def test_snooze_refuses_the_same_delays() -> None:
    with pytest.raises(ValueError, match="delay"):
        Snooze(-1)


def test_reasons_are_kept_and_shown() -> None:
    assert (Retry(1, "partner is down").reason, str(Retry(1, "partner is down"))) == ("partner is down",) * 2
    assert (Discard("order withdrawn").reason, str(Discard("order withdrawn"))) == ("order withdrawn",) * 2
    assert (Dead("no such account").reason, str(Dead("no such account"))) == ("no such account",) * 2


def test_without_a_reason_something_is_still_said() -> None:
    assert all(str(control) for control in CONTROL)


@pytest.mark.parametrize("stop", [JobDeadlineExceeded, JobCancelled, JobInterrupted, JobLeaseLost])
def test_an_order_to_stop_is_not_swallowed_by_except_exception(stop: type[JobStopped]) -> None:
    assert issubclass(stop, JobStopped)
    assert not issubclass(stop, Exception)


def test_every_public_error_says_what_it_means() -> None:
    public = [value for name, value in vars(exceptions).items() if isinstance(value, type) and name[0] != "_"]

    assert [kind.__name__ for kind in public if not kind.__doc__] == []
