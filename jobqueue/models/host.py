"""The hosts that webhooks go to: how many requests are under way, and whether one is left alone after failures."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _


class Host(models.Model):
    """One host and port; `busy_until` has one time-out a request under way, `open_until` is when it is tried again."""

    name = models.TextField(_("name"), primary_key=True)
    busy_until = ArrayField(models.DateTimeField(), verbose_name=_("requests under way"), db_default=[])
    failures = models.IntegerField(_("failures in a row"), db_default=0)
    open_until = models.DateTimeField(_("left alone until"), null=True)

    class Meta:
        verbose_name = _("host")
        verbose_name_plural = _("hosts")
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
