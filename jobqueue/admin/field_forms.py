"""The form that says which field of many payloads is to change, into what, and what becomes of the jobs then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from jobqueue import operations
from jobqueue.operations.field_edits import VALUE_CHARACTERS
from jobqueue.redaction import is_secret

from . import masking
from .asking import ActForm

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from .running import Run

KINDS: Final = (
    ("set", _("Set it to")),
    ("replace", _("Replace in its text")),
    ("rename", _("Rename it to")),
    ("remove", _("Remove it")),
)
#: Which inputs belong to which kind.
INPUTS: Final = {"set": ("value",), "replace": ("find", "by"), "rename": ("name",), "remove": ()}
THEN: Final = (("retry", _("Put the jobs back")), ("save", _("Only save: they stay dead letters")))
WIDE: Final = {"class": "vTextField", "spellcheck": "false", "autocomplete": "off"}


def _text(label: Any, **more: Any) -> forms.CharField:
    options = {"required": False, "strip": False, "max_length": VALUE_CHARACTERS} | more
    return forms.CharField(label=label, widget=forms.TextInput(attrs=WIDE), **options)


class EditFieldForm(ActForm):
    """An edit of one field, and what ActForm asks of a retry."""

    path = _text(
        _("Field"),
        required=True,
        strip=True,
        max_length=1_000,
        help_text=_('By its path: name, document.pages, items[0].id, ["any name"].'),
    )
    kind = forms.ChoiceField(label=_("Change"), choices=KINDS, initial="set", widget=forms.RadioSelect)
    value = _text(_("New value"), help_text=_('As JSON: "text" in quotes, 12, true, null, [1, 2], {"a": 1}.'))
    find = _text(_("Text to find"))
    by = _text(_("Replace it by"))
    name = _text(_("New name"), strip=True, max_length=255)
    then = forms.ChoiceField(label=_("Then"), choices=THEN, initial="retry", widget=forms.RadioSelect)

    def __init__(self, *args: Any, across: bool, **kwargs: Any) -> None:
        super().__init__("retry", *args, across=across, **kwargs)

    def clean_path(self) -> tuple[str | int, ...]:
        """Return the steps of the path."""
        try:
            return operations.parse_path(self.cleaned_data["path"])
        except operations.BadPath as error:
            text = _('This names no field. Write name, document.pages, items[0].id or ["any name"].')
            raise forms.ValidationError(text) from error

    def clean(self) -> dict[str, Any]:
        """Make the edit."""
        cleaned = super().clean()
        kind, path = cleaned.get("kind", ""), cleaned.get("path")
        if path is None or kind not in INPUTS:
            return cleaned
        if path and isinstance(path[0], int):
            self.add_error("path", _("A payload is an object: its fields have names."))
        told: dict[str, Any] = {name: cleaned.get(name) for name in INPUTS[kind] if name != "value"}
        if kind == "set":
            told["value"] = self._value(cleaned.get("value") or "")
        elif kind in ("rename", "replace"):
            self._check_hidden(kind, path, told.get("name") or "")
        needed = {"rename": "name", "replace": "find"}.get(kind)
        if needed and not told[needed]:
            self.add_error(needed, self.fields[needed].error_messages["required"])
        elif kind == "rename" and (isinstance(path[-1], int) or path[-1] == told["name"]):
            self.add_error("name", _("An item of a list has no name, and a new name is another one."))
        if not self.errors:
            cleaned["edit"] = operations.FieldEdit(kind=kind, path=path, **told)
        return cleaned

    def _value(self, text: str) -> Any:
        try:
            return masking.unhidden(masking.parse(text))
        except masking.Misplaced:
            self.add_error("value", _("Write the value itself: nobody can tell which one *** stands for here."))
            return None
        except masking.NotJson:
            self.add_error("value", _('This is no JSON. A text stands in quotes: "like this".'))
            return None

    def _check_hidden(self, kind: str, path: tuple[str | int, ...], name: str) -> None:
        if any(isinstance(step, str) and is_secret(step) for step in path):
            self.add_error("path", _("What is hidden (***) can be set or removed, not renamed nor replaced in."))
        elif kind == "rename" and is_secret(name):
            self.add_error("name", _("Under this name it would be hidden (***): remove it, and set the other field."))

    def options(self) -> dict[str, Any]:
        """Return the arguments for the operation."""
        cleaned = self.cleaned_data
        return super().options() | {"edit": cleaned["edit"], "retry": cleaned["then"] == "retry"}

    def run(self, verb: str, user: User | AnonymousUser) -> Run:
        """Return the run of the edit on the set that was counted."""
        run, cleaned = super().run(verb, user), self.cleaned_data
        run.more = {"edit": cleaned["edit"].to_json(), "retry": cleaned["then"] == "retry"}
        return run
