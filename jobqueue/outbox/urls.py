"""What a webhook's URL and headers must be; said at the call, and again of every place that a redirect names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from jobqueue.conf import get_settings
from jobqueue.exceptions import InvalidWebhook

from .addresses import is_allowed, is_allowed_host

MAX_URL_BYTES: Final = 2048
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN: Final = frozenset(
    "accept-encoding connection content-encoding content-length content-type expect host keep-alive "
    "proxy-authorization te trailer transfer-encoding upgrade".split()
)


def check_url(url: str) -> SplitResult:
    """Return the parts of a URL that a webhook may go to. Raises InvalidWebhook, which does not repeat the URL's path.

    The name is not resolved: that is done right before each connection.
    """
    if not isinstance(url, str) or len(url.encode(errors="replace")) > MAX_URL_BYTES:
        raise InvalidWebhook(f"a webhook's URL is text of at most {MAX_URL_BYTES} bytes")
    if not url.isprintable() or " " in url or "\\" in url:
        raise InvalidWebhook("a webhook's URL has no spaces, backslashes or control characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidWebhook(f"a webhook's URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidWebhook("a webhook's URL is https://host/path, and may have a port and a query")
    if parts.username is not None or parts.password is not None:
        raise InvalidWebhook(f"the URL for {host} holds a user or a password: sign by a secret, or pass headers")
    _check_host(host)
    if parts.scheme == "http" and not _may_be_plain(host):
        text = f"{host}: webhooks go by https; JOBQUEUE['WEBHOOK_ALLOW'] or ['WEBHOOK_HTTP'] may allow http"
        raise InvalidWebhook(text)
    return parts


def _check_host(host: str) -> None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return
    if not is_allowed_host(host) and not is_allowed(address):
        raise InvalidWebhook(f"{host} is no public address, and JOBQUEUE['WEBHOOK_ALLOW'] does not name it")


def _may_be_plain(host: str) -> bool:
    if get_settings().WEBHOOK_HTTP or is_allowed_host(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return not address.is_global and is_allowed(address)


def host_of(parts: SplitResult) -> str:
    """Return the host and port that requests are counted by."""
    host = (parts.hostname or "").rstrip(".")
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def origin_of(parts: SplitResult) -> tuple[str, str]:
    """Return what must be equal for the caller's own headers to be sent along."""
    return parts.scheme, host_of(parts)


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the caller's own headers as they are kept. Raises InvalidWebhook, which names no value."""
    found: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name) or not isinstance(value, str):
            raise InvalidWebhook(f"headers are texts by name; {name!r:.80} is none")
        if name.lower() in _OWN or name.lower().startswith("webhook-"):
            raise InvalidWebhook(f"the header {name} is the sender's own")
        if not value.isascii() or not value.isprintable():
            raise InvalidWebhook(f"the value of the header {name} has other characters than printable ASCII")
        found[name] = value
    return found
