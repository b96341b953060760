"""What was read from each document, and what was submitted through the form."""

from django.contrib.auth import get_user_model
from django.db import models
from django.utils.translation import gettext_lazy as _


class Document(models.Model):
    """One file as `documents.index` read it last."""

    class Kind(models.TextChoices):
        """What a file holds, told by its first bytes."""

        PDF = "pdf", _("PDF")
        IMAGE = "image", _("image")
        TEXT = "text", _("text")
        OTHER = "other", _("other")

    path = models.TextField(_("path"), unique=True)
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices)
    sha256 = models.CharField(_("SHA-256"), max_length=64)
    size_bytes = models.BigIntegerField(_("size in bytes"))
    pages = models.IntegerField(_("pages"), null=True)
    words = models.IntegerField(_("words"), null=True)
    excerpt = models.TextField(_("excerpt"), blank=True)
    width = models.IntegerField(_("width"), null=True)
    height = models.IntegerField(_("height"), null=True)
    # In the row and not in a file: it is written, or not, together with the rest.
    thumbnail = models.BinaryField(_("thumbnail"), null=True)
    indexed_at = models.DateTimeField(_("indexed"))
    # A number and no foreign key: jobs are pruned, documents are kept.
    job_id = models.BigIntegerField(_("job"))

    class Meta:
        verbose_name = _("document")
        verbose_name_plural = _("documents")
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path


class Submission(models.Model):
    """One use of the form: committed together with the jobs that it enqueued."""

    path = models.TextField(_("path"))
    submitted_by = models.ForeignKey(
        get_user_model(), verbose_name=_("submitted by"), on_delete=models.SET_NULL, null=True
    )
    submitted_at = models.DateTimeField(_("submitted"), auto_now_add=True)
    job_ids = models.JSONField(_("jobs"), default=list)
    held = models.IntegerField(_("already waiting"), default=0, help_text=_("Files with an unfinished job before."))

    class Meta:
        verbose_name = _("submission")
        verbose_name_plural = _("submissions")
        ordering = ["-submitted_at"]

    def __str__(self) -> str:
        return f"{self.path} ({len(self.job_ids)})"
