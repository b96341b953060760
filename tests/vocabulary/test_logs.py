"""The job's id in every line, and lines of JSON whatever a record carries."""

import contextvars
import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jobqueue.logs import CurrentJob, JobFilter, JSONFormatter, Quietly, TerminalFormatter, current_job

JOB = CurrentJob(job_id=7, job_type="documents.index", attempt=2, lease_epoch=5)


@pytest.fixture
def in_job() -> Iterator[None]:
    token = current_job.set(JOB)
    yield
    current_job.reset(token)


def record(message: str = "read %s", *arguments: Any, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop", logging.INFO, __file__, 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


def filtered(made: logging.LogRecord) -> logging.LogRecord:
    assert JobFilter().filter(made)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JSONFormatter().format(made)
    assert "\n" not in line
    return json.loads(line, parse_constant=pytest.fail)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("in_job")
def test_a_record_within_a_job_carries_its_fields() -> None:
    fields = filtered(record("x")).__dict__

    assert {name: fields[name] for name in ("job_id", "job_type", "attempt", "lease_epoch")} == {
        "job_id": 7,
        "job_type": "documents.index",
        "attempt": 2,
        "lease_epoch": 5,
    }


def test_a_record_outside_of_a_job_has_the_fields_all_the_same() -> None:
    """A format string with %(job_id)s must not fail between jobs."""
    made = filtered(record("x"))

    assert (
        logging.Formatter("%(job_id)s %(job_type)s %(attempt)s %(lease_epoch)s").format(made) == "None None None None"
    )


@pytest.mark.usefixtures("in_job")
def test_what_the_caller_gave_by_extra_stays() -> None:
    assert filtered(record("x", job_id=99)).__dict__["job_id"] == 99


def test_the_filter_drops_nothing() -> None:
    assert JobFilter().filter(record("x")) is True


@pytest.mark.usefixtures("in_job")
def test_a_copied_context_keeps_the_job() -> None:
    """As asyncio tasks and asgiref's threads do."""
    context = contextvars.copy_context()
    token = current_job.set(None)

    made = context.run(filtered, record("x"))
    current_job.reset(token)

    assert made.__dict__["job_id"] == 7


def test_a_line_is_one_json_object_with_the_usual_fields() -> None:
    line = as_json(record("read %s", "a.pdf", created=0.5))

    assert line == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "INFO",
        "logger": "shop",
        "message": "read a.pdf",
    }


@pytest.mark.usefixtures("in_job")
def test_a_line_carries_the_job_without_the_filter_too() -> None:
    line = as_json(record("x"))

    assert (line["job_id"], line["attempt"]) == (7, 2)


def test_a_line_outside_of_a_job_has_no_job_fields() -> None:
    assert "job_id" not in as_json(filtered(record("x")))


def test_extra_fields_are_in_the_line() -> None:
    assert as_json(record("x", worker_id="w1", count=3))["count"] == 3


def test_a_message_of_several_lines_stays_one_line() -> None:
    assert as_json(record("a\nb"))["message"] == "a\nb"


def test_an_error_is_in_the_line_as_text() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        made = record("x", exc_info=sys.exc_info())

    assert as_json(made)["error"].endswith("ValueError: no")


def test_a_stack_is_in_the_line_as_text() -> None:
    assert as_json(record("x", stack_info="Stack (most recent call last): x"))["stack"].startswith("Stack")


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", BadRepr(), {(1, 2): 3}, {"a": BadRepr()}])
def test_a_value_that_json_lacks_does_not_lose_the_line(value: Any) -> None:
    line = as_json(record("x", thing=value))

    assert line["message"] == "x"
    assert "thing" in line


@pytest.mark.parametrize("value", [float("nan"), [float("inf")]])
def test_what_is_not_a_number_leaves_the_line_valid_json(value: Any) -> None:
    assert as_json(record("x", thing=value))["message"] == "x"


def test_a_value_within_itself_does_not_lose_the_line() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert as_json(record("x", thing=loop))["message"] == "x"


def test_a_lone_surrogate_does_not_lose_the_line() -> None:
    assert JSONFormatter().format(record("\ud800")).isascii()


@pytest.mark.usefixtures("in_job")
def test_both_work_by_django_s_logging_setting(capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"job": {"()": "jobqueue.logs.JobFilter"}},
        "formatters": {"json": {"()": "jobqueue.logs.JSONFormatter"}},
        "handlers": {
            "out": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stdout",
                "filters": ["job"],
                "formatter": "json",
            }
        },
        "loggers": {"tests.logs": {"handlers": ["out"], "level": "INFO", "propagate": False}},
    }
    from logging.config import dictConfig

    dictConfig(config)
    logging.getLogger("tests.logs").info("started")

    assert json.loads(capsys.readouterr().out)["job_id"] == 7


def test_a_fault_that_lasts_is_told_less_and_less_often(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    quietly = Quietly(logging.getLogger("jobqueue.quiet"))

    def told_at(seconds: range) -> list[int]:
        caplog.clear()
        times = []
        for second in seconds:
            monkeypatch.setattr("jobqueue.logs.time.monotonic", lambda: float(second))  # noqa: B023 - called within this round
            before = len(caplog.records)
            quietly.warning("away error=%s", "refused")
            times += [second] * (len(caplog.records) - before)
        return times

    assert told_at(range(0, 125, 5)) == [0, 10, 30, 70]
    assert caplog.messages[-1] == "away error=refused (left out: 7)"
    assert told_at(range(500, 520, 5)) == [500, 510]


SPEAK = """
import logging
from jobqueue.logs import speak_by_default
speak_by_default()
logging.getLogger("jobqueue.worker").warning("lost lease job_id=7")
"""


def said_to_terminal(**environment: str) -> str:
    ours, theirs = pty.openpty()
    try:
        env = {**os.environ, "TERM": "xterm", "NO_COLOR": ""} | environment
        subprocess.run([sys.executable, "-c", SPEAK], stderr=theirs, env=env, check=True)
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_lines_are_in_colour_on_a_terminal_unless_somebody_says_no() -> None:
    assert "\x1b[33mWARNING" in said_to_terminal()
    for no in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "WARNING jobqueue.worker lost lease job_id=7" in said_to_terminal(**no)


def test_lines_are_plain_where_they_are_no_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", SPEAK], capture_output=True, text=True, check=True)

    assert "\x1b" not in done.stderr
    assert done.stderr.endswith("WARNING jobqueue.worker lost lease job_id=7\n")


def test_a_line_for_a_terminal_names_its_job_once_and_keeps_the_traceback(in_job: None) -> None:
    plain = TerminalFormatter().format(record())
    try:
        raise ValueError("no toner")
    except ValueError:
        made = record("failed job_id=7")
        made.exc_info = sys.exc_info()
    failed = TerminalFormatter().format(made)

    assert plain.endswith("read %s \x1b[2mjob_id=7\x1b[0m")
    assert failed.count("job_id=7") == 1
    assert failed.endswith("ValueError: no toner")
