"""The settings of the outbox, each by its rule."""

from typing import Any

import pytest

from jobqueue.conf import JobQueueSettings, build
from jobqueue.exceptions import ConfigurationError
from project.environment import jobqueue_settings
from tests.outbox.conftest import FIRST, SECOND


def refused(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        build(values)
    return str(caught.value)


def test_one_secret_and_a_list_of_them_become_tuples() -> None:
    found = build({"WEBHOOK_SECRETS": {"a": FIRST, "b": [SECOND, FIRST]}}).WEBHOOK_SECRETS

    assert found == {"a": (FIRST,), "b": (SECOND, FIRST)}


@pytest.mark.parametrize(
    "secret", ["YQ" * 20, f"whsec_{'YQ' * 20}", f"whsec_{'YWFh' * 8}", "whsec_" + "YWFh" * 21 + "YQ=="]
)
def test_secrets_of_24_to_64_bytes_are_taken_with_prefix_or_without_and_padded_or_not(secret: str) -> None:
    assert build({"WEBHOOK_SECRETS": {"a": secret}}).WEBHOOK_SECRETS["a"] == (secret,)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (["whsec_x"], "must be a dict from names to secrets"),
        ({"a": []}, "each name has one secret, or a list of them"),
        ({"a": {"b": FIRST}}, "each name has one secret, or a list of them"),
        ({7: FIRST}, "each name has one secret, or a list of them"),
        ({"a": 7}, "each name has one secret, or a list of them"),
        ({"a": [b"hunter2"]}, "not bytes"),
        ({"a": "hunter2!"}, "this is no base64"),
        ({"a": "whsec_aHVudGVyMg=="}, "24 to 64 random bytes, not of 7"),
        ({"a": [FIRST, "whsec_" + "YWFh" * 22]}, "24 to 64 random bytes, not of 66"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(value: Any, told: str) -> None:
    text = refused(WEBHOOK_SECRETS=value)

    assert told in text
    assert text.startswith("JOBQUEUE['WEBHOOK_SECRETS'] = …: ")
    assert "hunter2" not in text
    assert FIRST not in text


@pytest.mark.parametrize(
    "item", ["hooks.internal", "*.corp.example", "10.0.0.1", "10.0.0.0/8", "fd12::/16", "::1", "my_host", "LOCALHOST"]
)
def test_names_domains_addresses_and_networks_can_be_allowed(item: str) -> None:
    found = build({"WEBHOOK_ALLOW": [item]})

    assert list(found.WEBHOOK_ALLOW) == [item.lower()]


@pytest.mark.parametrize("item", ["https://a.b", "a.b:8080", "a.b/c", "10.0.0.1/8", "*", "*.", "a b", "", "*.*.b", 7])
def test_what_could_allow_nothing_or_too_much_is_refused(item: Any) -> None:
    refused(WEBHOOK_ALLOW=[item])


def test_the_settings_can_be_read_from_the_environment() -> None:
    environment = {
        "JOBQUEUE_WEBHOOK_SECRETS": f'{{"a": ["{FIRST}", "{SECOND}"]}}',
        "JOBQUEUE_WEBHOOK_ALLOW": "hooks.internal, 10.0.0.0/8",
        "JOBQUEUE_WEBHOOK_TOTAL_SECONDS": "7.5",
        "JOBQUEUE_MAIL_BACKEND": "",
    }

    settings = build(jobqueue_settings(environment))

    assert settings.WEBHOOK_SECRETS == {"a": (FIRST, SECOND)}
    assert settings.WEBHOOK_ALLOW == ("hooks.internal", "10.0.0.0/8")
    assert (settings.WEBHOOK_TOTAL_SECONDS, settings.MAIL_BACKEND) == (7.5, None)


def test_the_queue_of_mails_is_a_queue() -> None:
    assert JobQueueSettings().MAIL_QUEUE == "jobqueue"
    assert "queue" in refused(MAIL_QUEUE="no queue")
