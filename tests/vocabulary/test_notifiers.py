"""Who is told of a dead job or a broken limit, and how; and that a wrong setting says what is wrong."""

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from django.core.mail import EmailMessage
from pytest_django import Settings

from jobqueue.conf import JobQueueSettings
from jobqueue.exceptions import ConfigurationError
from jobqueue.notifiers import (
    CallableNotifier,
    EmailNotifier,
    LogNotifier,
    Notification,
    Notifier,
    load_notifiers,
)
from jobqueue.outcomes import Outcome

EVENT = Notification(
    job_id=7,
    job_type="documents.index",
    queue="documents",
    owner="ann@example.org",
    outcome=Outcome.FAILED,
    reason="dead",
    error_class="ValueError",
    error_text="secret of a customer",
    attempts=3,
)

received: list[Notification] = []


def receive(event: Notification) -> None:
    """Stand for a function of the project."""
    received.append(event)


class Silent:
    """Stands for a class of the project that is no notifier."""


class NeedsAnArgument:
    """Stands for a notifier that cannot be made without arguments."""

    def __init__(self, channel: str) -> None:
        self.channel = channel

    def notify(self, event: Notification) -> None:
        """Would tell of the event."""


not_callable = 5


def load(*paths: str) -> list[Notifier]:
    return load_notifiers(JobQueueSettings(NOTIFIERS=paths))


@pytest.fixture(autouse=True)
def nobody_told_yet() -> None:
    received.clear()


# The event


def test_an_event_comes_back_from_json_text() -> None:
    assert Notification.from_json(json.loads(json.dumps(EVENT.to_json()))) == EVENT


def test_an_event_without_an_owner_comes_back_too() -> None:
    event = replace(EVENT, owner=None)

    assert Notification.from_json(event.to_json()) == event


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({}, "Job 7 (documents.index) is dead: failed"),
        ({"reason": "limit", "outcome": Outcome.DEADLINE}, "Job 7 (documents.index) broke a limit: deadline"),
    ],
)
def test_the_summary_says_which_job_and_what_became_of_it(changes: dict[str, Any], summary: str) -> None:
    assert replace(EVENT, **changes).summary == summary


# By log


def test_the_log_has_ids_and_classes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="jobqueue.notify"):
        LogNotifier().notify(EVENT)

    assert caplog.text.endswith(
        "job needs attention job_id=7 job_type=documents.index queue=documents reason=dead outcome=failed"
        " error_class=ValueError attempts=3\n"
    )


def test_the_log_does_not_have_the_text_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    LogNotifier().notify(EVENT)

    assert "secret" not in caplog.text


# By e-mail


def test_the_owner_is_written_to_where_that_is_an_address(mailoutbox: list[EmailMessage], settings: Settings) -> None:
    settings.EMAIL_SUBJECT_PREFIX = "[site] "

    EmailNotifier().notify(EVENT)

    (message,) = mailoutbox
    assert message.to == ["ann@example.org"]
    assert message.subject == "[site] Job 7 (documents.index) is dead: failed"


def test_the_message_has_what_a_person_needs(mailoutbox: list[EmailMessage]) -> None:
    EmailNotifier().notify(EVENT)

    body = str(mailoutbox[0].body)
    for words in ("queue: documents", "owner: ann@example.org", "attempts: 3", "ValueError", "secret of a customer"):
        assert words in body


def test_the_message_shows_no_secret_of_the_error(mailoutbox: list[EmailMessage]) -> None:
    """Case C138: an error's text may hold what the handler was given."""
    EmailNotifier().notify(replace(EVENT, error_text="refused: {'password': 'hunter2', 'Authorization': 'Bearer z'}"))

    assert str(mailoutbox[0].body).endswith("refused: {'password': '***', 'Authorization': '***'}\n")


@pytest.mark.parametrize("owner", [None, "", "ann", "user:17", "ann@", "a@b.org\nBcc: all@b.org"])
def test_the_managers_are_written_to_where_the_owner_is_no_address(
    owner: str | None, mailoutbox: list[EmailMessage], settings: Settings
) -> None:
    settings.MANAGERS = [("Manager", "manager@example.org")]

    EmailNotifier().notify(replace(EVENT, owner=owner))

    (message,) = mailoutbox
    assert message.to == ["manager@example.org"]


def test_without_owner_and_managers_nothing_is_sent(mailoutbox: list[EmailMessage], settings: Settings) -> None:
    settings.MANAGERS = []

    EmailNotifier().notify(replace(EVENT, owner=None))

    assert mailoutbox == []


# By a function of the project


def test_a_function_of_the_project_gets_the_event() -> None:
    CallableNotifier(f"{__name__}.receive").notify(EVENT)

    assert received == [EVENT]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="not_callable cannot be called"):
        CallableNotifier(f"{__name__}.not_callable")


# The setting


def test_by_default_the_log_is_told() -> None:
    (notifier,) = load_notifiers(JobQueueSettings())

    assert isinstance(notifier, LogNotifier)


def test_several_are_loaded_in_their_order() -> None:
    loaded = load("jobqueue.notifiers.EmailNotifier", f"{__name__}.receive", "jobqueue.notifiers.LogNotifier")

    assert [type(notifier) for notifier in loaded] == [EmailNotifier, CallableNotifier, LogNotifier]


def test_a_function_in_the_setting_is_called() -> None:
    (notifier,) = load(f"{__name__}.receive")

    notifier.notify(EVENT)

    assert received == [EVENT]


def test_there_may_be_none() -> None:
    assert load() == []


def test_without_an_argument_the_settings_in_force_are_read(settings: Settings) -> None:
    settings.JOBQUEUE = {"NOTIFIERS": ["jobqueue.notifiers.EmailNotifier"]}

    (notifier,) = load_notifiers()

    assert isinstance(notifier, EmailNotifier)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no.such.module", "No module named 'no'"),
        ("jobqueue.notifiers.Nobody", 'does not define a "Nobody"'),
        ("receive", "doesn't look like a module path"),
        (f"{__name__}.Silent", r"has no method notify\(event\)"),
        (f"{__name__}.NeedsAnArgument", "missing 1 required positional argument: 'channel'"),
        (f"{__name__}.not_callable", "cannot be called"),
    ],
)
def test_a_wrong_entry_is_named_with_what_is_wrong(path: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^JOBQUEUE\['NOTIFIERS'\]: '{path}'.*{words}"):
        load(path)


@pytest.mark.parametrize("notifier", [LogNotifier(), EmailNotifier(), CallableNotifier(f"{__name__}.receive")])
def test_all_three_are_notifiers(notifier: object) -> None:
    assert isinstance(notifier, Notifier)
