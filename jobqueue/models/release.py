"""Which releases of the project have run here, and since when: the marks of deploys on charts."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class Release(models.Model):
    """One version of the project, as its first worker told it at its start."""

    version = models.TextField(_("version"), primary_key=True)
    first_seen_at = models.DateTimeField(_("first seen"), db_default=StatementTimestamp())

    class Meta:
        verbose_name = _("release")
        verbose_name_plural = _("releases")
        default_permissions = ()

    def __str__(self) -> str:
        return self.version
