"""What stands before an action on jobs: the rows that the admin shows to the user, and the permission for each of them.

A project may show a part of the jobs by get_queryset(), and allow actions on some of them by has_…_permission(request,
obj), both in a subclass. Ids that a request names are looked for in get_queryset(), whatever list they came from. Where
the subclass has a say on single jobs it is asked about each, in batches of 500 rows; else the permission is of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from jobqueue import operations
from jobqueue.models import Job

from .base import user_of

if TYPE_CHECKING:
    from django.contrib import admin

Act = Callable[..., operations.Report]

ROWS: Final = 500
#: What an action does to a job besides what it is called, so that a subclass is asked about that, too.
ALSO: Final = {"edit_field": ("edit_payload", "retry")}


def guarded(model_admin: admin.ModelAdmin[Any], request: HttpRequest, name: str, act: Act, *, listed: bool) -> Act:
    """Return an action that leaves out the jobs that the user may not see or not do this to, and tells so.

    `listed` is for ids that were read from get_queryset() just now.
    """
    asks = asks_of_each(model_admin, name)
    if listed and not asks:
        return act

    def acted(ids: Sequence[int], **options: Any) -> operations.Report:
        allowed: list[int] = []
        refused: dict[int, str] = dict.fromkeys(ids, _("is not in this list any more"))
        for job in _rows(model_admin, request, ids, whole=asks):
            if asks and not _may(model_admin, request, name, job):
                refused[job.pk] = _("may not be touched by you")
                continue
            del refused[job.pk]
            allowed.append(job.pk)
        report = act(allowed, **options) if allowed else operations.Report()
        report.refused |= refused
        return report

    return acted


def asks_of_each(model_admin: admin.ModelAdmin[Any], name: str) -> bool:
    """Tell whether a subclass outside of jobqueue has a say on single jobs."""
    methods = [getattr(type(model_admin), f"has_{each}_permission", None) for each in ("view", *_parts(name))]
    return any(method is not None and not method.__module__.startswith(f"{__package__}.") for method in methods)


def _parts(name: str) -> tuple[str, ...]:
    return (name, *ALSO.get(name, ()))


def _rows(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, ids: Sequence[int], *, whole: bool
) -> Iterator[Any]:
    # The primary knows what became of a job a moment ago.
    rows = model_admin.get_queryset(request).using(Job.objects.write_db)
    rows = rows if whole else rows.only("pk")
    for start in range(0, len(ids), ROWS):
        yield from rows.filter(pk__in=ids[start : start + ROWS]).order_by("pk")


def _may(model_admin: admin.ModelAdmin[Any], request: HttpRequest, name: str, job: Job) -> bool:
    asked = [getattr(model_admin, f"has_{each}_permission", None) for each in _parts(name)]
    if model_admin.has_view_permission(request, job) and all(one is None or one(request, job) for one in asked):
        return True
    operations.refused(user_of(request), name, operations.PERMISSIONS[name])
    return False
