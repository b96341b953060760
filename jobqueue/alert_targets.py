"""The settings of the alerts: the rule of each, as rules.py has those of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from .alerting import make_rule


def alert_rules(value: Any) -> Mapping[str, Any]:
    """Allow a dict from names of alert rules to a number, a dict of options, or None for one that is switched off."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict from names of alert rules to what they say, not {type(value).__name__}")
    for name, definition in value.items():
        make_rule(name, definition)
    return dict(value)


def addresses(value: Any) -> tuple[str, ...]:
    """Allow a list or tuple of e-mail addresses."""
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list or tuple of strings")
    found = tuple(_text(item) for item in value)
    for item in found:
        try:
            validate_email(item)
        except ValidationError:
            raise ValueError(f"{item!r} is no e-mail address") from None
    return found


def alert_webhooks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Allow a list of URLs, or of dicts with url, and if need be format ("json" or "slack") and secret (a name)."""
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of URLs or dicts")
    return tuple(_alert_webhook(item) for item in value)


def _alert_webhook(item: Any) -> Mapping[str, Any]:
    given = {"url": item} if isinstance(item, str) else item
    if not isinstance(given, Mapping) or not given.keys() <= {"url", "format", "secret"}:
        raise ValueError("each is a URL, or a dict of url, format and secret")
    link(given.get("url"))
    usual = "slack" if urlsplit(given["url"]).hostname == "hooks.slack.com" else "json"
    found = {"format": usual, "secret": None, **given}  # none is no secret  # nosec B105
    if found["format"] not in ("json", "slack"):
        raise ValueError(f"format is json or slack, not {found['format']!r}")
    if found["secret"] is not None:
        _text(found["secret"])
    return found


def link(value: Any) -> str:
    """Allow an absolute URL by http or https."""
    parts = urlsplit(_text(value))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with https:// or http://")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a string, not empty")
    return value
