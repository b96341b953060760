"""What every page of the console is: read only, never counted whole, without the bulky columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from jobqueue.models import Job

from .door import through_door
from .paging import CappedPaginator, KeyedChangeList
from .wording import EMPTY

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    RowAdmin = admin.ModelAdmin[Any]
else:
    RowAdmin = admin.ModelAdmin

#: Never read for a list: payloads and results may be megabytes each.
BULKY: Final = ("payload", "result", "progress", "last_error")
LARGEST_ID: Final = 2**63 - 1
#: Python refuses to read numbers of thousands of digits.
LONGEST_NUMBER: Final = 100


class ReadOnlyAdmin(RowAdmin):
    """Shows rows to whoever has `view_permission`; nobody adds, changes or deletes one here."""

    view_permission = "jobqueue.view_job"
    #: What a list has so many of, where the name of the page is no plural.
    counted_as: Any = ""
    #: What an address may narrow the list by, search and pages apart: any other lookup could read all rows, or find out
    #: letter by letter what is hidden.
    lookups: frozenset[str] = frozenset()

    paginator = CappedPaginator
    show_full_result_count = False
    # A count for each choice of a filter is a count of the whole table.
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 100
    list_max_show_all = 100
    actions: Any = None
    # Sorting by a column without an index reads the whole table.
    sortable_by = ()

    @property
    def urls(self) -> list[Any]:
        """Return the addresses of the pages, those of subclasses too, each behind the door."""
        patterns: list[Any] = self.get_urls()
        for pattern in patterns:
            pattern.callback = through_door(pattern.callback, self.model, self.admin_site)
        return patterns

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list under its own name: there is nothing to select for changing."""
        if any(number_of(each) is None for each in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            return HttpResponseBadRequest()
        context = {"title": capfirst(str(self.opts.verbose_name_plural)), **(extra_context or {})}
        return super().changelist_view(request, context)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeyedChangeList]:
        """Return the list that knows how to go on behind its last page."""
        return KeyedChangeList

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow what the pages themselves link to."""
        return lookup in self.lookups

    class Media:
        """What the stock style sheets lack."""

        css = {"all": ["jobqueue/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: jobs come from code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: a form would write a stale row over what a worker did meanwhile (case C132)."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: finished jobs are pruned, dead ones discarded."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may read the page."""
        return user_of(request).has_perm(self.view_permission)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Tell whether the page is listed for the user."""
        return self.has_view_permission(request)


def text_block(label: Any, text: str | None) -> SafeString | str:
    """Return a text of many lines, escaped, that can be scrolled by keyboard; `-` for none."""
    if not text:
        return EMPTY
    return format_html('<pre class="jobqueue-text" tabindex="0" role="region" aria-label="{}">{}</pre>', label, text)


def user_of(request: HttpRequest) -> User | AnonymousUser:
    """Return who asks."""
    return request.user


def number_of(text: str) -> int | None:
    """Return the id that a text names, the largest one for any that is larger; None for what is no number."""
    if not (text.isascii() and text.isdecimal()):
        return None
    return min(int(text), LARGEST_ID) if len(text) < LONGEST_NUMBER else LARGEST_ID


def job_url(job_id: int) -> str:
    """Return the address of a job's page."""
    return reverse("admin:jobqueue_job_change", args=[job_id])


def job_link(job: Job) -> SafeString:
    """Return a link to a job's page."""
    return format_html('<a href="{}">{}</a>', job_url(job.pk), job.pk)
