"""What every list of jobs is: without the bulky columns, searched within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.db.models import Q
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Job
from jobqueue.redaction import mask_text
from jobqueue.states import Status, status_name

from .acting import ActingAdmin
from .base import BULKY, LARGEST_ID
from .wording import EMPTY, ERROR_CHARACTERS, instant, instant_of, shortened

if TYPE_CHECKING:
    from django.db.models import QuerySet

SEARCHED: Final = 100_000
SEARCH_FIELDS: Final = ("dedupe_key", "owner", "job_type", "worker_id", "error_class", "fingerprint")


class JobListAdmin(ActingAdmin):
    """A list of jobs, whichever of them; the page of each is that of JobAdmin."""

    #: By which the newest rows are found that the filters take their choices from: an index must give it.
    sample_order: tuple[str, ...] = ("-id",)
    #: Whether the filters offer every name that code declares, or those of the list's own rows only.
    offers_declared = False
    search_fields = SEARCH_FIELDS
    search_help_text = _(
        "A number finds a job by its id; other text is looked for in key, owner, type, worker and error."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their bulky columns, with the head of their error."""
        head = Left("last_error", ERROR_CHARACTERS + 1)
        rows: QuerySet[Any] = super().get_queryset(request).defer(*BULKY).annotate(error_head=head)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find a job by its id, else by text in the newest SEARCHED ids: without an index it would read them all."""
        term = search_term.strip().removeprefix("#")
        if not term:
            return queryset, False
        if term.isascii() and term.isdecimal():
            return queryset.filter(pk=min(int(term), LARGEST_ID)), False
        found = Q()
        for name in SEARCH_FIELDS:
            found |= Q(**{f"{name}__icontains": term.replace("\x00", "")})
        return self.searched(queryset).filter(found), False

    def searched(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that a text is looked for in."""
        newest = Job.objects.using(queryset.db).order_by("-pk").values_list("pk", flat=True).first() or 0
        return queryset.filter(pk__gt=newest - SEARCHED)

    created = instant_of("created_at", _("created"))
    due = instant_of("run_after", _("run after"))
    finished = instant_of("finished_at", _("finished"))
    leased = instant_of("lease_until", _("lease until"))

    @admin.display(description=_("status"))
    def state(self, job: Job) -> SafeString:
        """Return the status, marked for the style sheet."""
        name = status_name(job.status).lower()
        return format_html('<span class="jobqueue-status jobqueue-{}">{}</span>', name, job.get_status_display())

    @admin.display(description=_("due / finished"))
    def moment(self, job: Job) -> str:
        """Return when a scheduled job is due, or when a finished one ended."""
        return instant(job.run_after if job.status == Status.SCHEDULED else job.finished_at)

    @admin.display(description=_("attempts"))
    def tries(self, job: Job) -> str:
        """Return the attempts used of those allowed."""
        return f"{job.attempts} / {job.max_attempts}"

    @admin.display(description=_("error"))
    def error(self, job: Any) -> str:
        """Return the class and the head of the last error, with an ellipsis where there is more."""
        parts = (job.error_class.rpartition(".")[2] if job.error_class else "", mask_text(shortened(job.error_head)))
        return ": ".join(filter(None, parts)) or EMPTY
