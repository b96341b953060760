"""The outbox: what leaves the system is a job, enqueued in the transaction that it tells of.

    with transaction.atomic():
        order.save()
        outbox.send_webhook("https://partner.example/hooks", "order.paid", {"order": order.pk}, secret="partner")

`deliver_webhook()` and `deliver_mail()` send at once and in this process, for those who cannot wait for a worker.

Imported at the first use of a name: every worker's supervisor could send an alert, and few ever do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .delivery import Delivered, deliver_webhook
    from .mails import deliver_mail, send_mail
    from .webhooks import send_webhook

_HOMES = {
    "Delivered": "delivery",
    "deliver_webhook": "delivery",
    "deliver_mail": "mails",
    "send_mail": "mails",
    "send_webhook": "webhooks",
}

__all__ = ["Delivered", "deliver_mail", "deliver_webhook", "send_mail", "send_webhook"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    found = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return found
