"""Secrets are hidden in what people read, and what is none stays readable (case C138)."""

import json
import time
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue.conf import SECRET_PATTERNS, JobQueueSettings
from jobqueue.exceptions import ConfigurationError
from jobqueue.redaction import MASK, is_secret, mask_json, mask_text

CASE = {"password": "hunter2", "nested": {"api_key": "k", "Authorization": "Bearer z"}}


def test_the_payload_of_the_case_is_masked_and_left_as_it_was() -> None:
    payload = json.loads(json.dumps(CASE))

    assert mask_json(payload) == {"password": MASK, "nested": {"api_key": MASK, "Authorization": MASK}}
    assert payload == CASE


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "db_passwd", "userPassword", "DB_PWD", "passphrase", "client_secret", "secretKey"),
        *(
            "token",
            "accessToken",
            "refresh_token",
            "X-Auth-Token",
            "api_key",
            "apikey",
            "x-api-key",
            "AWS_ACCESS_KEY_ID",
        ),
        *("private_key", "Authorization", "auth", "x-auth", "Cookie", "Set-Cookie", "credentials", "session_id", "jwt"),
        *("X-Hub-Signature", "csrfmiddlewaretoken"),
    ],
)
def test_these_names_are_secret(name: str) -> None:
    assert is_secret(name)
    assert mask_json({name: "xyz"}) == {name: MASK}
    assert "xyz" not in mask_text(f"{name}=xyz")
    assert "xyz" not in mask_text(f'{{"{name}": "xyz"}}')


@pytest.mark.parametrize(
    "name",
    ["path", "author", "dedupe_key", "key", "page_count", "tokenizer", "passed", "session", "user", "TokenError"],
)
def test_these_names_are_not(name: str) -> None:
    assert not is_secret(name)
    assert mask_text(f"{name}=xyz") == f"{name}=xyz"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [{"token": "x"}, {"b": {"pwd": 5}}]}, {"a": [{"token": MASK}, {"b": {"pwd": MASK}}]}),
        ({"secret": {"inner": "x"}, "tokens": ["a", "b"]}, {"secret": MASK, "tokens": MASK}),
        ({"password": None, "token": True}, {"password": None, "token": True}),
        ({"note": "login with password=hunter2 now"}, {"note": f"login with password={MASK} now"}),
        (["Bearer abcdef123", 5, None], [f"Bearer {MASK}", 5, None]),
        ("plain", "plain"),
    ],
)
def test_json_is_masked_at_any_depth(value: Any, shown: Any) -> None:
    assert mask_json(value) == shown


def test_a_name_may_be_secret_for_one_caller_only() -> None:
    assert mask_json({"iban": "DE02", "x": {"iban": "DE03"}}, more=["iban"]) == {"iban": MASK, "x": {"iban": MASK}}
    assert mask_json({"iban": "DE02"}) == {"iban": "DE02"}


def test_data_without_a_bottom_is_cut_off_masked() -> None:
    value: Any = "deep"
    for _ in range(5_000):
        value = [value]

    assert "deep" not in str(mask_json(value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=***"),
        ("password = hunter2, user = ann", "password = ***, user = ann"),
        ("password: hunter2; host: db", "password: ***; host: db"),
        ("connect(password='hunt er2', user='ann')", "connect(password='***', user='ann')"),
        ('{"password": "hunt\\"er2", "user": "ann"}', '{"password": "***", "user": "ann"}'),
        ("{'api_key': 'k', 'n': 1}", "{'api_key': '***', 'n': 1}"),
        (r'"{\"password\": \"hunter2\", \"user\": \"ann\"}"', r'"{\"password\": \"***\", \"user\": \"ann\"}"'),
        ("{'credentials': {'user': 'u', 'pw': ['p']}, 'n': 1}", "{'credentials': ***, 'n': 1}"),
        ("os.environ['API_TOKEN'] = 'abc'", "os.environ['API_TOKEN'] = '***'"),
        ("Authorization: Bearer z", "Authorization: ***"),
        ('Authorization: Digest username="bob", response="abc"\nHost: x', "Authorization: ***\nHost: x"),
        ("curl -H 'Authorization: Bearer z' https://example.org", "curl -H 'Authorization: ***' https://example.org"),
        ("Cookie: a=b; sessionid=c\nAccept: text/html", "Cookie: ***\nAccept: text/html"),
        ("got Bearer eyJhbGciOi.abc-def today", "got Bearer *** today"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("postgresql://ann:hunter2@db:5432/x", "postgresql://ann:***@db:5432/x"),
        ("postgresql://ann:hun@ter2@db:5432/x", "postgresql://ann:***@db:5432/x"),
        ("POST https://hooks.slack.com/services/T0/B0/xyz failed", "POST https://hooks.slack.com/*** failed"),
        ('{"url": "https://discord.com/api/webhooks/1/xyz"}', '{"url": "https://discord.com/api/webhooks/***"}'),
        ("redis://:hunter2@cache/0", "redis://:***@cache/0"),
        ("GET /x?token=abc&page=2", "GET /x?token=***&page=2"),
        ("mysqldump --password hunter2 --user ann", "mysqldump --password *** --user ann"),
        ("token: Bearer z and more", "token: Bearer *** and more"),
        ("secret=first secret=second", "secret=*** secret=***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA", "-----BEGIN RSA PRIVATE KEY-----***-----END RSA"),
    ],
)
def test_texts_are_masked_where_a_name_or_a_form_gives_the_value_away(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "basic authentication failed",
        "KeyError: 'password'",
        "the password was wrong",
        "tokenize.TokenError: EOF in multi-line statement",
        "https://example.org:8443/a@b",
        "job 7 (documents.index) is dead: deadline",
        "user ann@example.org at 12:30:05",
    ],
)
def test_texts_without_a_secret_stay_as_they_are(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize("text", ["{'secret': {'a': 'hunter2', 'b':", "password='hunter2 and so on"])
def test_a_secret_that_was_cut_off_in_the_middle_stays_hidden(text: str) -> None:
    assert "hunter2" not in mask_text(text)


@pytest.mark.parametrize(
    "piece", ["a", "password=", "token", "'", "secret={", 'pwd="\\', "x://:", "x://:@", "-----BEGIN PRIVATE KEY-----"]
)
def test_a_long_text_takes_no_longer_than_it_should(piece: str) -> None:
    """No text that a handler's error can have makes an expression run for minutes."""
    text = piece * (100_000 // len(piece))
    began = time.monotonic()

    mask_text(text)

    assert time.monotonic() - began < 5


def test_the_patterns_are_a_setting(settings: Settings) -> None:
    settings.JOBQUEUE = {"SECRET_PATTERNS": ["^iban$"]}

    assert mask_json({"IBAN": "DE02", "password": "x"}) == {"IBAN": MASK, "password": "x"}
    assert mask_text("iban=DE02 password=x") == f"iban={MASK} password=x"


def test_without_patterns_no_name_is_secret(settings: Settings) -> None:
    settings.JOBQUEUE = {"SECRET_PATTERNS": []}

    assert mask_json(CASE) == CASE


def test_a_pattern_that_is_none_is_refused(settings: Settings) -> None:
    settings.JOBQUEUE = {"SECRET_PATTERNS": ["("]}

    with pytest.raises(ConfigurationError, match=r"SECRET_PATTERNS.*'\(' is no regular expression"):
        mask_text("x=y")


def test_the_default_patterns_follow_their_own_rule() -> None:
    assert JobQueueSettings().changed(SECRET_PATTERNS=list(SECRET_PATTERNS)).SECRET_PATTERNS == SECRET_PATTERNS
