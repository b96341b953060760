"""The project's addresses."""

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from jobqueue.models import Job


def buy(request: HttpRequest) -> HttpResponse:
    """Enqueue a job in the request's transaction."""
    with transaction.atomic():
        job = Job.objects.enqueue("shop.checksum", {"path": "manage.py"})
    return HttpResponse(f"job {job.pk}")


urlpatterns = [path("admin/", admin.site.urls), path("buy", buy)]
