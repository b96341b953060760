"""A strict content security policy, so that the browser itself tells of an inline script or style."""

import threading
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# What live parts need besides the pages: to ask their own server.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'"
)


class StrictPolicy:
    """Middleware that sends the policy with every page, and counts the requests that are under way."""

    under_way = 0
    _lock = threading.Lock()

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self._count(1)
        try:
            response = self._get_response(request)
        finally:
            self._count(-1)
        response["Content-Security-Policy"] = POLICY
        return response

    @classmethod
    def _count(cls, change: int) -> None:
        with cls._lock:
            cls.under_way += change
