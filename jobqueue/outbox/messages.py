"""A webhook's message: its id, its body's bytes and its headers, signed by the Standard Webhooks scheme.

The id and the body are made once, at the call, and are the same in every attempt; the receiver knows a repeated message
by its id. The signature covers id, time of the attempt and body. Source: standardwebhooks.com, specification 1.0.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jobqueue import __version__
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, InvalidWebhook, PayloadError
from jobqueue.payloads import encode_payload

from .urls import check_headers, check_url

MISSING: Final = "webhooks need httpx and standardwebhooks: pip install 'jobqueue[webhooks]'"
USER_AGENT: Final = f"jobqueue/{__version__}"
_EVENT: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_MAX_EVENT_CHARS: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to one URL. `sent_at` is when the call was made, as ISO 8601 in UTC.

    `secret` is a name in JOBQUEUE["WEBHOOK_SECRETS"]; without one the message is not signed. With `envelope` the body
    is {"type": event, "timestamp": sent_at, "data": data}, else it is the data alone.
    """

    url: str
    event: str
    data: Any
    secret: str | None = None
    headers: Mapping[str, str]
    envelope: bool = True
    id: str
    sent_at: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as the job's payload holds them."""
        names = ("url", "event", "data", "secret", "envelope", "id", "sent_at")
        return {name: getattr(self, name) for name in names} | {"headers": dict(self.headers)}

    @property
    def body(self) -> bytes:
        """The bytes that are sent and signed."""
        value = {"type": self.event, "timestamp": self.sent_at, "data": self.data} if self.envelope else self.data
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    @property
    def age_seconds(self) -> float:
        """How long ago the call was made, by this host's clock."""
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(self.sent_at)).total_seconds())


def new_message(
    url: str,
    event: str,
    data: Any,
    *,
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    envelope: bool = True,
) -> Message:
    """Check everything that can be checked without the network. Raises InvalidWebhook."""
    check_url(url)
    if not isinstance(event, str) or len(event) > _MAX_EVENT_CHARS or not _EVENT.fullmatch(event):
        raise InvalidWebhook(f'an event is letters, digits, "_" and "-", parted by dots: not {event!r:.80}')
    if secret is not None and secret not in get_settings().WEBHOOK_SECRETS:
        raise InvalidWebhook(f"JOBQUEUE['WEBHOOK_SECRETS'] has no secret named {secret!r:.80}")
    message = Message(
        url=url,
        event=event,
        data=data,
        secret=secret,
        headers=check_headers(headers),
        envelope=bool(envelope),
        id=f"msg_{uuid.uuid4().hex}",
        sent_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    _check_data(message)
    return message


def _check_data(message: Message) -> None:
    longest = get_settings().WEBHOOK_MAX_BYTES
    try:  # NUL, infinite numbers and foreign types are refused here, with the path of the value
        encode_payload({"data": message.data}, max_bytes=64 * longest)
    except PayloadError as error:
        raise InvalidWebhook(f"the data of a webhook: {error.path}: {error.rule}") from None
    if (size := len(message.body)) > longest:
        raise InvalidWebhook(f"a webhook's body of {size} bytes is over JOBQUEUE['WEBHOOK_MAX_BYTES'], {longest}")


def signed_headers(message: Message, at: datetime) -> dict[str, str]:
    """Return the headers of one attempt: all secrets of the name sign, the newest first.

    Raises ConfigurationError where the secret is no longer known or the extra is not installed.
    """
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at.timestamp())),
    }
    if message.secret is not None:
        secrets = get_settings().WEBHOOK_SECRETS.get(message.secret)
        if secrets is None:
            raise ConfigurationError(f"JOBQUEUE['WEBHOOK_SECRETS'] has no secret named {message.secret!r} any more")
        headers["webhook-signature"] = " ".join(_sign(secret, message, at) for secret in secrets)
    return headers


def _sign(secret: str, message: Message, at: datetime) -> str:
    try:
        from standardwebhooks.webhooks import Webhook  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(MISSING) from error
    return Webhook(secret).sign(message.id, at, message.body.decode())
