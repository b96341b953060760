"""URLs of the example project: the form for documents at the root, the admin, and the queue's pages for machines."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("jobqueue/", include("jobqueue.urls")),
    path("", include("project.documents.urls")),
]
