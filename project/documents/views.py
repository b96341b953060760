"""The page that enqueues from a request, as a user's own view would."""

from django.conf import settings
from django.contrib.auth.decorators import login_required, permission_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from jobqueue.models import Job

from .forms import SubmissionForm
from .models import Submission
from .submitting import submit

JOBS_SHOWN = 25


@login_required
@permission_required("documents.add_submission", raise_exception=True)
@require_http_methods(["GET", "POST"])
@transaction.atomic  # the request's transaction: when anything below fails, no job was ever enqueued
def submit_documents(request: HttpRequest) -> HttpResponse:
    """Show the form and the newest jobs; a POST enqueues and leads to the submission's own page."""
    form = SubmissionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        assert request.user.is_authenticated  # by login_required
        submission = submit(form.cleaned_data["path"], submitted_by=request.user)
        return redirect("documents:submission", submission.pk)
    context = {"form": form, "roots": settings.DOCUMENT_ROOTS, "jobs": Job.objects.order_by("-id")[:JOBS_SHOWN]}
    return render(request, "documents/submit.html", context, status=400 if form.errors else 200)


@login_required
@permission_required("documents.add_submission", raise_exception=True)
@require_GET
def show_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what one submission enqueued and how its jobs stand."""
    submission = get_object_or_404(Submission, pk=pk)
    jobs = Job.objects.filter(pk__in=submission.job_ids).order_by("id")
    return render(request, "documents/submission.html", {"submission": submission, "jobs": jobs})
