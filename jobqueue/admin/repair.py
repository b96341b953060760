"""Repair one job from its page: retry it later, edit its payload, run it anew, look behind the masks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from jobqueue import operations
from jobqueue.exceptions import InvalidTransition, JobQueueError
from jobqueue.models import Job
from jobqueue.states import Status

from . import detail, masking
from .acting import may, tell
from .base import LARGEST_ID, job_url, number_of, user_of
from .folding import parts_of
from .lists import JobListAdmin
from .until import not_too_late
from .why_not import why_not
from .wording import size

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A larger payload is not edited in a page: nobody reads it there, and the comparison takes its time.
EDITED_BYTES: Final = 65_536
WHEN: Final = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")


class EditForm(forms.Form):
    """The payload as a person wants it, in the form it was shown in: with its secrets hidden."""

    seen = forms.CharField(widget=forms.HiddenInput)
    payload = forms.CharField(
        label=gettext_lazy("Payload"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "spellcheck": "false", "class": "jobqueue-payload"}),
        help_text=gettext_lazy("A JSON object. A hidden value (***) stays what it is where you leave it as it stands."),
    )
    when = forms.DateTimeField(
        label=gettext_lazy("Not before"),
        required=False,
        validators=[not_too_late],
        widget=WHEN,
        help_text=gettext_lazy("Empty: at once."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=operations.REASON_CHARACTERS,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=gettext_lazy("Kept with the action."),
    )

    def __init__(self, job: Job, text: str, *args: Any, **kwargs: Any) -> None:
        """Take the job and its payload as the database prints it."""
        super().__init__(*args, **kwargs)
        self.job, self.text = job, text

    def clean_seen(self) -> operations.Seen:
        """Return what the person saw."""
        epoch, _dash, instant = self.cleaned_data["seen"].partition("-")
        number = number_of(epoch)
        updated_at = None if number is None else _time_of(instant)
        if number is None or updated_at is None or timezone.is_naive(updated_at):
            raise forms.ValidationError(_("This form is not complete: open it again."))
        return operations.Seen(updated_at, number)

    def clean_payload(self) -> Mapping[str, Any]:
        """Return the payload with its hidden values put back, if it could be enqueued."""
        original = masking.parse(self.text)
        try:
            edited = masking.parse(self.cleaned_data["payload"])
            payload = masking.restored(edited, masking.parse(masking.masked(self.text)), original)
            operations.check_payload(self.job.job_type, payload)
        except masking.NotJson as error:
            raise forms.ValidationError(_("This is no JSON: %(error)s."), params={"error": str(error)}) from error
        except masking.Misplaced as error:
            text = _(
                "At %(path)s stands a hidden value that nobody can tell: write the value itself, or leave its object."
            )
            raise forms.ValidationError(text, params={"path": str(error)}) from error
        except JobQueueError as error:
            raise forms.ValidationError(str(error)) from error
        if payload == original:
            raise forms.ValidationError(_("Nothing has changed. To run it again as it is, retry it."))
        return dict(payload)


class RepairAdmin(JobListAdmin):
    """What the page of a job leads to."""

    def get_urls(self) -> list[Any]:
        """Add the addresses that repair one job."""
        wrap, post = self.admin_site.admin_view, require_POST
        edit = require_http_methods(["GET", "HEAD", "POST"])(self.edit_view)
        return [
            path("<int:job_id>/edit/", wrap(never_cache(edit)), name="jobqueue_job_edit"),
            path("<int:job_id>/retry-at/", wrap(post(self.retry_at_view)), name="jobqueue_job_retry_at"),
            path("<int:job_id>/clone/", wrap(post(self.clone_view)), name="jobqueue_job_clone"),
            path("<int:job_id>/unmasked/", wrap(never_cache(post(self.unmasked_view))), name="jobqueue_job_unmasked"),
            *super().get_urls(),
        ]

    def retry_at_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Put a dead letter back for a time, and go back to its page."""
        self.job_for(request, job_id, "retry")
        when = _instant(request.POST.get("when", ""))
        if when is None:
            messages.error(request, _("Give a date and a time at which it is to be retried."))
        else:
            reason = request.POST.get("reason", "")
            tell(request, "retry", operations.retry_at(job_id, when, actor=user_of(request), reason=reason))
        return HttpResponseRedirect(job_url(job_id))

    def clone_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Enqueue a job like this one, and go to its page."""
        self.job_for(request, job_id, "clone")
        try:
            new = operations.clone(job_id, actor=user_of(request), reason=request.POST.get("reason", ""))
        except (JobQueueError, TypeError, ValueError) as error:
            messages.error(request, _("It was not cloned: %(error)s") % {"error": error})
            return HttpResponseRedirect(job_url(job_id))
        messages.success(request, _("This is job #%(id)d, enqueued like #%(of)d.") % {"id": new.pk, "of": job_id})
        return HttpResponseRedirect(job_url(new.pk))

    def unmasked_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Show what the page of the job hides, once it is written down that somebody looks at it."""
        job = self.job_for(request, job_id, "unmask", preview=True)
        operations.unmask(job_id, actor=user_of(request), what=_("payload, result, progress and error were shown"))
        shown = detail.preview_of(job, unmasked=True)
        context = self._context(request, job, _("Hidden values of %(job)s") % {"job": job})
        context |= {"parts": parts_of(job_id, shown), "error": shown.error}
        return TemplateResponse(request, "admin/jobqueue/job/unmasked.html", context)

    def edit_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Let a person edit the payload of a dead letter, show what would change, then change it and put it back."""
        job = self.job_for(request, job_id, "edit_payload", "retry")
        if (problem := _not_editable(job)) is not None:
            messages.error(request, problem)
            return HttpResponseRedirect(job_url(job_id))
        text = detail.json_text(job_id, "payload", using=Job.objects.write_db) or "{}"
        if request.method != "POST":
            initial = {"payload": masking.masked(text), "seen": f"{job.lease_epoch}-{job.updated_at.isoformat()}"}
            return self._ask(request, job, EditForm(job, text, initial=initial))
        form = EditForm(job, text, request.POST)
        if "back" in request.POST:
            return self._ask(request, job, EditForm(job, text, initial=request.POST.dict()))
        if not form.is_valid():
            return self._ask(request, job, form)
        if form.cleaned_data["seen"] != operations.Seen(job.updated_at, job.lease_epoch):
            return _moved_on(request, job_id, _("it has changed since you opened it"))
        return self._save(request, job, form) if "confirmed" in request.POST else self._confirm(request, job, form)

    def _ask(self, request: HttpRequest, job: Job, form: EditForm) -> HttpResponse:
        context = self._context(request, job, _("Edit the payload of %(job)s, and retry it") % {"job": job})
        return TemplateResponse(request, "admin/jobqueue/job/edit.html", context | {"form": form})

    def _confirm(self, request: HttpRequest, job: Job, form: EditForm) -> HttpResponse:
        arrival = operations.check_payload(job.job_type, form.cleaned_data["payload"])
        after = detail.pretty(arrival.payload, using=Job.objects.write_db)
        changes = masking.difference(masking.masked_lines(form.text), masking.masked_lines(after))
        context = self._context(request, job, _("What changes in %(job)s") % {"job": job})
        context |= {"form": form, "changes": changes, "when": form.cleaned_data["when"]}
        context |= {"hidden": [(name, form[name].value()) for name in form.fields]}
        return TemplateResponse(request, "admin/jobqueue/job/edit_confirm.html", context)

    def _save(self, request: HttpRequest, job: Job, form: EditForm) -> HttpResponse:
        told = form.cleaned_data
        try:
            operations.edit_and_retry(
                job.pk,
                told["payload"],
                seen=told["seen"],
                actor=user_of(request),
                reason=told["reason"],
                when=told["when"],
            )
        except InvalidTransition as error:
            return _moved_on(request, job.pk, why_not(error))
        messages.success(request, _("The payload was changed, and the job put back."))
        return HttpResponseRedirect(job_url(job.pk))

    def job_for(self, request: HttpRequest, job_id: int, *actions: str, preview: bool = False) -> Any:
        """Return the job if the user may see it and take these actions on it, by their permissions and by the class.

        Raises PermissionDenied, and Http404 where the user sees no such job.
        """
        for action in actions:
            operations.check_permission(user_of(request), action, subject=f"job:{job_id}")
        job = self.visible_job(request, job_id, preview=preview)
        if not all(self.may_act(request, action, job) for action in actions):
            raise PermissionDenied
        return job

    def may_act(self, request: HttpRequest, action: str, job: Job) -> bool:
        """Tell whether the user may take an action on one job: a subclass may say no by has_ACTION_permission()."""
        own = getattr(self, f"has_{action}_permission", None)
        return may(request, action) and (own is None or own(request, job))

    def visible_job(self, request: HttpRequest, job_id: int, *, preview: bool = False) -> Any:
        """Return the job if the user may see it, by the queryset and the permission of this page.

        `preview` has it read with what detail.preview_of() needs.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        rows = self.get_queryset(request).using(Job.objects.write_db)
        rows = detail.with_preview(rows) if preview else rows
        job = rows.filter(pk=job_id).first() if job_id <= LARGEST_ID else None
        if job is None:
            raise Http404
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        return job

    def _context(self, request: HttpRequest, job: Job, title: str) -> dict[str, Any]:
        each = self.admin_site.each_context(request)
        return {**each, "title": title, "opts": self.opts, "media": self.media, "job": job, "job_url": job_url(job.pk)}


def _not_editable(job: Job) -> str | None:
    if job.status != Status.DEAD:
        told = {"status": job.get_status_display()}
        return _("Only the payload of a dead letter can be edited, and this job is %(status)s now.") % told
    if job.payload_bytes > EDITED_BYTES:
        told = {"size": size(job.payload_bytes), "limit": size(EDITED_BYTES)}
        return _("Its payload has %(size)s: more than %(limit)s are not edited in a page.") % told
    return None


def _moved_on(request: HttpRequest, job_id: int, why: str) -> HttpResponse:
    messages.error(request, _("Nothing was changed, because the job moved on meanwhile: %(why)s.") % {"why": why})
    return HttpResponseRedirect(job_url(job_id))


def _time_of(text: str) -> datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:  # well formed, but no time that there is
        return None


def _instant(text: str) -> datetime | None:
    """Return the time that a person typed, in the current zone; None for what is none."""
    try:
        when: datetime | None = forms.DateTimeField(widget=WHEN, validators=[not_too_late]).clean(text)
        return when
    except forms.ValidationError:
        return None
