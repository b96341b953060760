"""The pages of that project: the example project's, and one that enqueues."""

from django.contrib.auth.models import Group
from django.http import HttpRequest, JsonResponse
from django.urls import path

from jobqueue.models import Job
from project.urls import urlpatterns as those_of_the_example


def order(request: HttpRequest) -> JsonResponse:
    """Write a row and enqueue the job that looks for it; `fails`: raise after that."""
    name = request.POST["name"]
    Group.objects.create(name=name)
    job = Job.objects.enqueue("probe.touch", {"name": name}, owner=name)
    if "fails" in request.POST:
        raise RuntimeError("after the enqueue")
    return JsonResponse({"job": job.pk if job else None})


urlpatterns = [path("shop/order/", order), *those_of_the_example]
