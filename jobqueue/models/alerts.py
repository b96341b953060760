"""Alerts: rules as people changed them in the admin, and the incidents, past and present."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import StatementTimestamp


class AlertRule(models.Model):
    """What a person changed about a rule of the settings (empty: nothing), or a whole rule of their own."""

    name = models.TextField(_("name"), primary_key=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    definition = models.JSONField(
        _("definition"), null=True, blank=True, help_text=_("Of a rule that the settings do not have.")
    )
    threshold = models.FloatField(_("threshold"), null=True, blank=True)
    for_seconds = models.FloatField(_("fires after so many seconds"), null=True, blank=True)
    cooldown_seconds = models.FloatField(_("is quiet for so many seconds afterwards"), null=True, blank=True)
    muted_until = models.DateTimeField(_("muted until"), null=True, blank=True)

    class Meta:
        verbose_name = _("alert rule")
        verbose_name_plural = _("alert rules")
        default_permissions = ()
        permissions = [("manage_alert", _("Can change and mute alerts"))]

    def __str__(self) -> str:
        return self.name


class Incident(models.Model):
    """One time that a rule was broken, by one subject (a queue, a worker, a budget; "" for the whole)."""

    class State(models.IntegerChoices):
        """How far an incident is: a pending one has not lasted long enough to tell anybody."""

        PENDING = 1, _("pending")
        FIRING = 2, _("firing")
        RESOLVED = 3, _("resolved")

    id = models.BigAutoField(primary_key=True)
    rule = models.TextField(_("rule"))
    subject = models.TextField(_("subject"), db_default="")
    state = models.SmallIntegerField(_("state"), choices=State.choices, db_default=State.PENDING)
    value = models.FloatField(_("last value"), null=True)
    worst = models.FloatField(_("worst value"), null=True)
    threshold = models.FloatField(_("threshold"), null=True)
    text = models.TextField(_("text"), db_default="")
    broken_since = models.DateTimeField(_("broken since"), db_default=StatementTimestamp())
    calm_since = models.DateTimeField(_("calm since"), null=True)
    fired_at = models.DateTimeField(_("fired"), null=True)
    resolved_at = models.DateTimeField(_("resolved"), null=True)
    # Messages that somebody has yet to send: found by an index of its own, which is empty nearly always.
    untold = models.BooleanField(_("has a message to be sent"), db_default=False)
    fired_told_at = models.DateTimeField(_("firing told"), null=True)
    resolved_told_at = models.DateTimeField(_("resolved told"), null=True)

    class Meta:
        verbose_name = _("incident")
        verbose_name_plural = _("incidents")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"], condition=models.Q(state__in=(1, 2)), name="jobqueue_incident_open"
            )
        ]
        indexes = [
            models.Index(fields=["-broken_since"], name="jobqueue_incident_recent"),
            models.Index(fields=["rule", "-broken_since"], name="jobqueue_incident_rule"),
            models.Index(fields=["id"], condition=models.Q(untold=True), name="jobqueue_incident_untold"),
        ]

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}".strip()


class Tick(models.Model):
    """When something that is done once for all workers was last done; whoever comes first does it."""

    name = models.TextField(_("name"), primary_key=True)
    at = models.DateTimeField(_("time"), db_default=StatementTimestamp())
    # Of "alerts", by rule: {"value": …, "subject": …} of the worst one, null where it could not be read.
    seen = models.JSONField(_("what was seen"), null=True)

    class Meta:
        verbose_name = _("tick")
        verbose_name_plural = _("ticks")
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
