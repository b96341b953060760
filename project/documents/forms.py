"""The form by which people have files indexed."""

from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from .collecting import is_allowed


class SubmissionForm(forms.Form):
    """One file or folder on this machine."""

    path = forms.CharField(
        label=_("File or folder on this machine"),
        max_length=4096,
        widget=forms.TextInput(attrs={"list": "roots", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["path"].help_text = _("Allowed, with all below: %s") % ", ".join(settings.DOCUMENT_ROOTS)

    def clean_path(self) -> Path:
        """Return an existing path in an allowed folder."""
        path = Path(self.cleaned_data["path"])
        # The same answer for what is forbidden and what is missing: the form must not tell which files exist.
        if not is_allowed(path) or not path.exists():
            raise ValidationError(_("There is no such file or folder among those that may be indexed."))
        return path.resolve()
