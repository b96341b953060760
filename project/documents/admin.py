"""Admin pages of the documents; read only, since jobs write them."""

import base64

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from .models import Document, Submission


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Pages that show rows and change none."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: rows come from jobs and the form."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: rows come from jobs and the form."""
        return False


@admin.register(Document)
class DocumentAdmin(ReadOnlyAdmin):
    """Documents by path, with what was read."""

    list_display = ["path", "kind", "size_bytes", "pages", "words", "width", "height", "job_id", "indexed_at"]
    list_filter = ["kind"]
    search_fields = ["path", "sha256"]
    exclude = ["thumbnail"]
    readonly_fields = ["picture"]

    @admin.display(description=_("thumbnail"))
    def picture(self, document: Document) -> str:
        """Return the thumbnail as an image."""
        if document.thumbnail is None:
            return "-"
        data = base64.b64encode(bytes(document.thumbnail)).decode()
        return format_html('<img src="data:image/png;base64,{}" alt="{}">', data, _("Thumbnail"))


@admin.register(Submission)
class SubmissionAdmin(ReadOnlyAdmin):
    """Uses of the form, newest first."""

    list_display = ["path", "submitted_by", "submitted_at", "held"]
