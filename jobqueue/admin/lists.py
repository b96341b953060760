"""What every list of jobs is: without the bulky columns, searched within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Job
from jobqueue.redaction import mask_text
from jobqueue.states import Status

from .acting import ActingAdmin
from .badges import status_badge
from .base import BULKY
from .job_lists import JobChangeList
from .search_terms import PLAIN_FIELDS
from .searching import LOOKUPS, Search
from .wording import EMPTY, ERROR_CHARACTERS, instant, instant_of, shortened

if TYPE_CHECKING:
    from django.db.models import QuerySet


class JobListAdmin(ActingAdmin):
    """A list of jobs, whichever of them; the page of each is that of JobAdmin."""

    #: By which the newest rows are found that the filters take their choices from: an index must give it.
    sample_order: tuple[str, ...] = ("-id",)
    #: Whether the filters offer every name that code declares, or those of the list's own rows only.
    offers_declared = False
    #: Whether there is a tab for each status.
    has_tabs = False
    #: How the list is searched: within which bounds, and by which time.
    search_class: type[Search] = Search
    search_fields = PLAIN_FIELDS
    search_help_text = None
    lookups = LOOKUPS

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their bulky columns, with the head of their error."""
        head = Left("last_error", ERROR_CHARACTERS + 1)
        rows: QuerySet[Any] = super().get_queryset(request).defer(*BULKY).annotate(error_head=head)
        return rows

    def search_of(self, request: HttpRequest) -> Search:
        """Return what a request looks for in this list, made once a request."""
        kept: dict[str, Search] = request.__dict__.setdefault("_jobqueue_searches", {})
        if self.opts.label not in kept:
            kept[self.opts.label] = self.search_class(request, self.model._default_manager.get_queryset().db)
        return kept[self.opts.label]

    def get_ordering(self, request: HttpRequest) -> Any:
        """Return the order of the index that the rows are read by."""
        return self.search_of(request).order or super().get_ordering(request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return what is found, within the window of the search; filters are bounded by it, too."""
        return self.search_of(request).applied(queryset), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        """Return the list that knows its search, and reads its rows within limits of time."""
        return JobChangeList

    created = instant_of("created_at", _("created"))
    due = instant_of("run_after", _("run after"))
    finished = instant_of("finished_at", _("finished"))
    leased = instant_of("lease_until", _("lease until"))

    @admin.display(description=_("status"))
    def state(self, job: Job) -> SafeString:
        """Return the status as a badge."""
        return status_badge(job.status)

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
