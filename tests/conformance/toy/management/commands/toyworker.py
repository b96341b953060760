from typing import Any

from django.core.management.base import BaseCommand

from tests.conformance.toy.draining import drain


class Command(BaseCommand):
    """One batch, in this process."""

    def handle(self, *args: Any, **options: Any) -> None:
        drain()
