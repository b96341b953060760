"""How far each budget of JOBQUEUE["BUDGETS"] is spent in its present window, as maintenance last saw it."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class Budget(models.Model):
    """One budget by name; `level` is the share that was passed, in per cent: 0, 80 or 100."""

    name = models.TextField(_("name"), primary_key=True)
    window_start = models.DateTimeField(_("since"))
    window_end = models.DateTimeField(_("until"))
    unit = models.TextField(_("unit"))
    amount = models.DecimalField(_("budget"), max_digits=30, decimal_places=8)
    spent = models.DecimalField(_("spent"), max_digits=30, decimal_places=8)
    level = models.SmallIntegerField(_("level"), db_default=0)
    refuses = models.BooleanField(_("enqueues refused"), db_default=False)
    pauses = models.BooleanField(_("queue paused"), db_default=False)
    updated_at = models.DateTimeField(_("updated"), db_default=StatementTimestamp())

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.spent} of {self.amount} {self.unit}"
