"""Edit one field in the payloads of many dead letters: say what, look at what it does to some of them, then do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from jobqueue import operations
from jobqueue.models import Job

from .acting import SET_VERBS, back_to_list, is_across, list_address, query_of, tell, ticked
from .asking import set_of
from .base import user_of
from .field_forms import INPUTS, EditFieldForm
from .field_previews import preview_edit
from .guarding import asks_of_each
from .lists import JobListAdmin
from .preview import preview
from .running import within

if TYPE_CHECKING:
    from django.db.models import QuerySet

NAME = "edit_field"


class FieldEditingAdmin(JobListAdmin):
    """A list of dead letters whose payloads can be edited."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Refuse an edit by somebody who may not retry, too: the list alone would quietly not take the action."""
        if request.method == "POST" and NAME in request.POST.getlist("action"):
            self._check_both(request)
        return super().changelist_view(request, extra_context)

    def _check_both(self, request: HttpRequest) -> None:
        for needed in (NAME, "retry"):
            operations.check_permission(user_of(request), needed)

    def take(self, request: HttpRequest, name: str, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Lead through an edit: the form, what it would do, then the run; other actions are as they are."""
        if name != NAME or "run" in request.POST:
            return super().take(request, name, queryset)
        self._check_both(request)
        across = is_across(request)
        if not {"preview", "confirmed", "back"} & set(request.POST):
            return self._ask_for_field(request, queryset, None)
        form = EditFieldForm(request.POST, across=across)
        if "back" in request.POST:
            return self._ask_for_field(request, queryset, EditFieldForm(initial=request.POST.dict(), across=across))
        if not form.is_valid():
            return self._ask_for_field(request, queryset, None if form.is_outdated else form)
        if "confirmed" not in request.POST:
            return self._confirm_field(request, queryset, form)
        if across:
            run = form.run(name, user_of(request))
            run.more |= self.told(request, name)
            return self.go_on(request, run, queryset)
        tell(request, name, self.act_of(request, name)(ticked(request), actor=user_of(request), **form.options()))
        return back_to_list(request)

    def _ask_for_field(self, request: HttpRequest, queryset: QuerySet[Job], form: EditFieldForm | None) -> HttpResponse:
        seen = preview(request, queryset, costs=False)
        initial = set_of(seen) | {"path": request.POST.get("path", "")}
        form = form or EditFieldForm(initial=initial, across=is_across(request))
        kinds = [(choice, [form[name] for name in INPUTS[choice.data["value"]]]) for choice in form["kind"]]
        rest = [form[name] for name in ("a_minute", "spread_seconds", "most", "reason") if name in form.fields]
        context = {"form": form, "preview": seen, "kinds": kinds, "rest": rest}
        return self._page(request, "admin/jobqueue/deadletter/edit_field.html", context)

    def _confirm_field(self, request: HttpRequest, queryset: QuerySet[Job], form: EditFieldForm) -> HttpResponse:
        said = form.cleaned_data
        fixed = within(queryset, said["newest"], said["moment"]) if is_across(request) else queryset
        seen = preview_edit(said["edit"], fixed, sees_hidden=user_of(request).has_perm("jobqueue.view_payload"))
        if seen.matching == 0:
            messages.warning(request, _("None of these jobs has %(field)s as you say.") % {"field": said["edit"].field})
            return self._ask_for_field(request, queryset, form)
        context = {
            "form": form,
            "edit": said["edit"],
            "seen": seen,
            "examples": [one for one in seen.examples if self._shows(request, queryset, one.job_id)],
            "back": said["then"] == "retry",
            "hidden": [(name, form[name].value()) for name in form.fields if form[name].value() not in (None, "")],
        }
        return self._page(request, "admin/jobqueue/deadletter/edit_field_confirm.html", context)

    def _shows(self, request: HttpRequest, queryset: QuerySet[Job], job_id: int) -> bool:
        """Tell whether the user may see a job's payload, where a subclass has a say on single jobs."""
        if not asks_of_each(self, NAME):
            return True
        job = queryset.filter(pk=job_id).first()
        return job is not None and self.has_view_permission(request, job)

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        common = {
            **self.admin_site.each_context(request),
            "title": SET_VERBS[NAME].label,
            "opts": self.opts,
            "media": self.media,
            "name": NAME,
            "across": is_across(request),
            "address": f"?{query_of(request)}",
            "list_address": list_address(request),
            "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[: 1 if is_across(request) else None],
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, template, common | context)
