"""What is said of a queue as a whole: that it is paused. A queue that nobody ever paused has no row."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """A queue by name, or ``*`` for all of them; paused while `paused_at` is set and `resumes_at` is not over."""

    name = models.TextField(_("name"), primary_key=True)
    paused_at = models.DateTimeField(_("paused"), null=True)
    paused_by = models.TextField(_("paused by"), db_default="", help_text=_("A user, a command, or budget:NAME."))
    reason = models.TextField(_("reason"), db_default="")
    resumes_at = models.DateTimeField(_("resumes"), null=True, help_text=_("Empty: when somebody resumes it."))

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ()
        permissions = [("manage_queue", _("Can pause and resume queues"))]

    def __str__(self) -> str:
        return self.name
