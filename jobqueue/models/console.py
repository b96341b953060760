"""Views of the jobs that have a page of their own in the admin: no table, no rows, no permissions of their own."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from .job import Job


class DeadLetter(Job):
    """A job that nobody will run again until a person has looked at it."""

    class Meta:
        proxy = True
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        default_permissions = ()


class StuckJob(Job):
    """A running job whose lease ran out, or that runs longer than it may."""

    class Meta:
        proxy = True
        verbose_name = _("stuck job")
        verbose_name_plural = _("stuck jobs")
        default_permissions = ()
