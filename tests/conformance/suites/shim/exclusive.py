from typing import Any

from django.db import transaction


def exclusive_transaction(using: str | None = None) -> Any:
    return transaction.atomic(using)


def normalize_uuid(value: Any) -> str:
    return str(value)
