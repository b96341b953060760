"""Who sends the token of JOBQUEUE["OPS_TOKEN"], to the web's pages or to a worker's own port."""

from __future__ import annotations

import hmac

from jobqueue.conf import get_settings


def bearer_token(authorization: str) -> str | None:
    """Return the token of an Authorization header, None where the header has another scheme or there is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def is_token(given: str) -> bool:
    """Tell whether a text is the token of the settings, in a time that says nothing about how much of it is right."""
    token = get_settings().OPS_TOKEN
    return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
