"""The Django application of the documents."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DocumentsConfig(AppConfig):
    """Documents and the jobs that index them."""

    name = "project.documents"
    label = "documents"
    verbose_name = _("Documents")
