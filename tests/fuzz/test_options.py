"""Options of the worker and settings of the project: taken as they are, or refused by name."""

from typing import Any

import pytest
from django.core.management.base import CommandError
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.checks import check_settings
from jobqueue.conf import JobQueueSettings, build, problems
from jobqueue.exceptions import ConfigurationError
from jobqueue.management.commands.jobqueue_worker import Command
from jobqueue.rules import RULES

from .values import ANYTHING, TEXTS, refusal

WORDS = st.one_of(
    TEXTS,
    st.integers(-(10**12), 10**12).map(str),
    st.floats().map(str),
    st.sampled_from(["1" * 5_000, "1_0", "٣", "0x1", "1e309", "nan", "inf", "-0", " ", "*", "a:1,b:2,*", "a:,"]),
    st.tuples(st.sampled_from(["mail:", "*:", "a,", ""]), st.sampled_from(["9" * 5_000, "٣", "2", "-1", "*"])).map(
        "".join
    ),
)  # fmt: skip
VALUE_OPTIONS = (
    *("queues", "job-types", "processes", "threads", "lease", "poll", "name", "max-jobs", "max-seconds"),
    "shutdown-timeout",
)
NUMBERS = st.one_of(st.integers(-(10**7), 10**7), st.floats(-1e6, 1e6), st.integers(), st.floats())
SETTINGS = st.dictionaries(
    st.one_of(st.sampled_from(sorted(RULES)), TEXTS),
    st.one_of(NUMBERS, ANYTHING, st.dictionaries(TEXTS, ANYTHING, max_size=2)),
    max_size=4,
)


@given(chosen=st.dictionaries(st.sampled_from(VALUE_OPTIONS), WORDS, min_size=1, max_size=4), drain=st.booleans())
def test_options_of_the_worker_are_taken_or_refused_in_words(chosen: dict[str, str], drain: bool) -> None:
    """No traceback for any command line; what is taken makes a worker that could run."""
    arguments = [f"--{name}={word}" for name, word in chosen.items()] + ["--drain"] * drain
    command = Command()
    parser = command.create_parser("manage.py", "runworker")
    parser.called_from_command_line = False  # so that it raises where it would end the process
    made, refused = refusal(
        lambda: command._options("default", vars(parser.parse_args(arguments))), CommandError, ConfigurationError
    )
    if refused is not None:
        assert str(refused)
        return
    assert 1 <= made.processes <= 1024
    assert 1 <= made.threads <= 1024
    assert 5 <= made.lease.total_seconds() <= 3600
    assert 0 < made.poll.total_seconds() <= 3600
    assert made.max_seconds is None or made.max_seconds >= 0
    assert len(made.worker_id.encode()) <= 63
    assert made.plan().registered()


@given(values=SETTINGS)
def test_settings_are_taken_or_refused_by_name(values: dict[str, Any]) -> None:
    """What is taken can be worked with: no overflow waits in a relation between two of them."""
    made, refused = refusal(lambda: build(values), ConfigurationError)
    if refused is not None:
        assert "JOBQUEUE" in str(refused)
        return
    assert isinstance(made, JobQueueSettings)
    for problem in problems(made):
        assert problem.text
    for name in ("lease", "renew_interval", "lease_margin", "statement_timeout"):
        assert getattr(made, name).total_seconds() > 0


@pytest.mark.django_db
@given(name=st.sampled_from(sorted(RULES)), value=st.one_of(NUMBERS, ANYTHING))
def test_the_checks_tell_of_a_wrong_setting(name: str, value: Any, settings: Any) -> None:
    """`manage.py check` says what is wrong instead of failing itself."""
    settings.JOBQUEUE = {name: value}
    found = check_settings()

    _made, refused = refusal(lambda: build({name: value}), ConfigurationError)
    if refused is not None:
        assert [(message.id, message.msg) for message in found] == [("jobqueue.E003", str(refused))]
    else:
        assert {message.id for message in found} <= {"jobqueue.E004", "jobqueue.W004"}
