"""The outbox: what leaves the system is a job, enqueued in the transaction that it tells of.

    with transaction.atomic():
        order.save()
        outbox.send_webhook("https://partner.example/hooks", "order.paid", {"order": order.pk}, secret="partner")

`deliver_webhook()` and `deliver_mail()` send at once and in this process, for those who cannot wait for a worker.
"""

from .delivery import Delivered, deliver_webhook
from .mails import deliver_mail, send_mail
from .webhooks import send_webhook

__all__ = ["Delivered", "deliver_mail", "deliver_webhook", "send_mail", "send_webhook"]
